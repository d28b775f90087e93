// launch CUBIN: loads a cubin and launches its kernel `lines` (see lines.cu) once, by the driver's interface, in this very process: a
// debugger needs no other. Prints what the first and the last thread wrote.
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 64, STEPS = 3 };

static void *driver;

static void *function(const char *name) {
    void *address = dlsym(driver, name);
    if (!address) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return address;
}

static void need(const char *what, CUresult result) {
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", what, (int)result);
        exit(1);
    }
}

// Newer versions of a function have a name of their own in the library: cuda.h defines the name without it.
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)
#define CALL(name, ...) need(#name, ((__typeof__(name) *)function(NAME_OF(name)))(__VA_ARGS__))

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: launch CUBIN\n");
        return 2;
    }
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr in, out;
    float values[THREADS];
    int steps = STEPS, threads = THREADS;
    for (int i = 0; i < THREADS; ++i)
        values[i] = 0.125f * (float)i;
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuModuleLoad, &module, words[1]);
    CALL(cuModuleGetFunction, &kernel, module, "lines");
    CALL(cuMemAlloc, &in, sizeof values);
    CALL(cuMemAlloc, &out, sizeof values);
    CALL(cuMemcpyHtoD, in, values, sizeof values);
    void *arguments[] = {&out, &in, &steps, &threads};
    CALL(cuLaunchKernel, kernel, 1, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL);
    CALL(cuCtxSynchronize);
    CALL(cuMemcpyDtoH, values, out, sizeof values);
    printf("%.9g %.9g\n", values[0], values[THREADS - 1]);
    return 0;
}
