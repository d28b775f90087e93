/* Eight threads compile at once, right and wrong PTX, some with too little memory and some cancelled on their way, through both APIs: the
 * same bytes every time, and no memory is lost.
 * Arguments: a PTX file, and the cubin it becomes. */
#define _GNU_SOURCE
#include "check.h"
#include <nvPTXCompiler.h>
#include <orias.h>
#include <pthread.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { THREADS = 8, ROUNDS = 125 };

static char *ptx, *expected;
static size_t ptx_size, expected_size;

static void compile_right(void)
{
    orias_compiler *compiler = NULL;
    CHECK(orias_compiler_create(&compiler) == ORIAS_SUCCESS);
    CHECK(orias_compiler_add_module(compiler, NULL, ptx, ptx_size) == ORIAS_SUCCESS);
    CHECK(orias_compiler_add_option(compiler, "-arch=sm_90a") == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_SUCCESS);
    char *cubin = malloc(expected_size);
    size_t size = 0;
    CHECK(orias_compiler_get_cubin(compiler, cubin, expected_size, &size) == ORIAS_SUCCESS);
    CHECK(size == expected_size && memcmp(cubin, expected, size) == 0);
    free(cubin);
    orias_compiler_destroy(&compiler);
}

/* An error in a line of its own, which is in the log of this handle and no other. */
static void compile_wrong(int line)
{
    char text[400], wanted[64];
    int at = snprintf(text, sizeof text, ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n");
    for (int row = 6; row < line; row++)
        at += snprintf(text + at, sizeof text - (size_t)at, "\n");
    at += snprintf(text + at, sizeof text - (size_t)at, "wrong;\nret;\n}\n");
    snprintf(wanted, sizeof wanted, "ptxas application ptx input, line %d; error ", line);
    nvPTXCompilerHandle compiler = NULL;
    const char *options[] = {"--gpu-name=sm_90a"};
    CHECK(nvPTXCompilerCreate(&compiler, (size_t)at, text) == NVPTXCOMPILE_SUCCESS);
    CHECK(nvPTXCompilerCompile(compiler, 1, options) == NVPTXCOMPILE_ERROR_COMPILATION_FAILURE);
    size_t size = 0;
    CHECK(nvPTXCompilerGetErrorLogSize(compiler, &size) == NVPTXCOMPILE_SUCCESS);
    char *log = malloc(size + 1);
    CHECK(nvPTXCompilerGetErrorLog(compiler, log) == NVPTXCOMPILE_SUCCESS);
    CHECK(strstr(log, wanted) != NULL);
    free(log);
    CHECK(nvPTXCompilerDestroy(&compiler) == NVPTXCOMPILE_SUCCESS);
}

static void compile_little(void)
{
    orias_compiler *compiler = NULL;
    CHECK(orias_compiler_create(&compiler) == ORIAS_SUCCESS);
    CHECK(orias_compiler_add_module(compiler, NULL, ptx, ptx_size) == ORIAS_SUCCESS);
    CHECK(orias_compiler_add_option(compiler, "-arch=sm_90a") == ORIAS_SUCCESS);
    CHECK(orias_compiler_set_memory_limit(compiler, 40000) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_OUT_OF_MEMORY);
    orias_compiler_destroy(&compiler);
}

/* Goes on for as many phases as are left. */
static int ends(void *payload)
{
    int *left = payload;
    return (*left)-- <= 0;
}

static void compile_halfway(int phases)
{
    orias_compiler *compiler = NULL;
    CHECK(orias_compiler_create(&compiler) == ORIAS_SUCCESS);
    CHECK(orias_compiler_add_module(compiler, NULL, ptx, ptx_size) == ORIAS_SUCCESS);
    CHECK(orias_compiler_add_option(compiler, "-arch=sm_90a") == ORIAS_SUCCESS);
    CHECK(orias_compiler_set_callback(compiler, ends, &phases) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_CANCELLED);
    size_t size = 0;
    CHECK(orias_compiler_get_cubin(compiler, NULL, 0, &size) == ORIAS_ERROR_NOT_COMPILED);
    orias_compiler_destroy(&compiler);
}

static void *work(void *argument)
{
    int thread = *(int *)argument;
    for (int round = 0; round < ROUNDS; round++) {
        switch ((thread + round) % 6) {
        case 0: compile_wrong(6 + (thread * 17 + round) % 90); break;
        case 1: compile_little(); break;
        case 2: compile_halfway(round % 20); break;
        default: compile_right();
        }
    }
    return NULL;
}

static void all_threads(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    ptx = read_file(arguments[1], &ptx_size);
    expected = read_file(arguments[2], &expected_size);
    all_threads();
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    /* Tables are filled by now; a second time nothing more stays. A compilation takes hundreds of kilobytes. */
    struct mallinfo2 before = mallinfo2();
    all_threads();
    struct mallinfo2 after = mallinfo2();
    long long lost = (long long)(after.uordblks + after.hblkhd) - (long long)(before.uordblks + before.hblkhd);
    if (lost > 16384) {
        fprintf(stderr, "%lld bytes lost in %d compilations\n", lost, THREADS * ROUNDS);
        return 1;
    }
#endif
    free(ptx);
    free(expected);
    printf("%d compilations\n", THREADS * ROUNDS);
    return 0;
}
