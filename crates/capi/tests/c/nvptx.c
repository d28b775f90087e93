/* A program written for NVIDIA's PTX Compiler API. What it prints is the same with either library.
 * Arguments: a PTX file, where to write its cubin. */
#include "check.h"
#include <nvPTXCompiler.h>

static void print_log(const char *what, nvPTXCompilerHandle compiler,
                      nvPTXCompileResult (*size_of)(nvPTXCompilerHandle, size_t *),
                      nvPTXCompileResult (*get)(nvPTXCompilerHandle, char *))
{
    size_t size = 99;
    CHECK(size_of(compiler, &size) == NVPTXCOMPILE_SUCCESS);
    if (size == 0) {
        printf("  %s: none\n", what);
        return;
    }
    char *text = malloc(size);
    CHECK(get(compiler, text) == NVPTXCOMPILE_SUCCESS);
    CHECK(strlen(text) + 1 == size);
    /* Figures and times are the library's own. */
    char *line = strtok(text, "\n");
    for (; line != NULL; line = strtok(NULL, "\n")) {
        if (strstr(line, "Compile time") == NULL && strstr(line, "Used ") == NULL)
            printf("  %s: %s\n", what, line);
    }
    free(text);
}

static void attempt(const char *title, const char *ptx, int count, const char *const *options,
                    const char *output)
{
    nvPTXCompilerHandle compiler = NULL;
    size_t size = 99;
    CHECK(nvPTXCompilerCreate(&compiler, strlen(ptx), ptx) == NVPTXCOMPILE_SUCCESS);
    CHECK(nvPTXCompilerGetCompiledProgramSize(compiler, &size) ==
          NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE);
    nvPTXCompileResult result = nvPTXCompilerCompile(compiler, count, options);
    printf("%s: result %d\n", title, (int)result);
    print_log("error", compiler, nvPTXCompilerGetErrorLogSize, nvPTXCompilerGetErrorLog);
    print_log("info", compiler, nvPTXCompilerGetInfoLogSize, nvPTXCompilerGetInfoLog);
    if (result == NVPTXCOMPILE_SUCCESS) {
        CHECK(nvPTXCompilerGetCompiledProgramSize(compiler, &size) == NVPTXCOMPILE_SUCCESS);
        char *program = malloc(size);
        CHECK(nvPTXCompilerGetCompiledProgram(compiler, program) == NVPTXCOMPILE_SUCCESS);
        printf("  program: %s\n", memcmp(program, "\177ELF", 4) == 0 ? "ELF" : "something else");
        if (output != NULL)
            write_file(output, program, size);
        free(program);
    } else {
        printf("  program: result %d\n", (int)nvPTXCompilerGetCompiledProgramSize(compiler, &size));
    }
    CHECK(nvPTXCompilerDestroy(&compiler) == NVPTXCOMPILE_SUCCESS);
}

static int cancel_at_once(void *payload, void *reserved)
{
    CHECK(reserved == NULL);
    ++*(int *)payload;
    return 1;
}

static void cancelled(const char *ptx, const char *const *options)
{
    nvPTXCompilerHandle compiler = NULL;
    int calls = 0;
    CHECK(nvPTXCompilerCreate(&compiler, strlen(ptx), ptx) == NVPTXCOMPILE_SUCCESS);
    CHECK(nvPTXCompilerSetFlowCallback(compiler, cancel_at_once, &calls) == NVPTXCOMPILE_SUCCESS);
    printf("cancelled: result %d\n", (int)nvPTXCompilerCompile(compiler, 1, options));
    CHECK(calls > 0);
    CHECK(nvPTXCompilerDestroy(&compiler) == NVPTXCOMPILE_SUCCESS);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    size_t size = 0;
    char *ptx = read_file(arguments[1], &size);
    unsigned major = 0, minor = 0;
    CHECK(nvPTXCompilerGetVersion(&major, &minor) == NVPTXCOMPILE_SUCCESS);
    printf("version %u.%u\n", major, minor);
    int versions = 0;
    CHECK(nvPTXCompilerGetNumSupportedVersions(&versions) == NVPTXCOMPILE_SUCCESS);
    CHECK(versions > 0);
    int (*all)[2] = malloc((size_t)versions * sizeof *all);
    CHECK(nvPTXCompilerGetSupportedVersions(all) == NVPTXCOMPILE_SUCCESS);
    printf("newest PTX %d.%d\n", all[versions - 1][0], all[versions - 1][1]);
    free(all);

    const char *target[] = {"--gpu-name=sm_90a", "-O3", "--verbose"};
    const char *unknown_target[] = {"--gpu-name=sm_9"};
    const char *unknown_option[] = {"--gpu-name=sm_90a", "--frobnicate"};
    const char *split[] = {"-arch", "sm_90a"};
    attempt("good", ptx, 3, target, arguments[2]);
    attempt("name and value apart", ptx, 2, split, NULL);
    attempt("unknown target", ptx, 1, unknown_target, NULL);
    attempt("unknown option", ptx, 2, unknown_option, NULL);
    attempt("wrong instruction",
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n  frobnicate.u32 1;\n  ret;\n}\n",
            1, target, NULL);
    attempt("later version", ".version 99.0\n.target sm_90a\n.address_size 64\n", 1, target, NULL);
    cancelled(ptx, target);

    nvPTXCompilerHandle none = NULL;
    printf("no handle: %d %d %d %d\n", (int)nvPTXCompilerCompile(NULL, 1, target), (int)nvPTXCompilerDestroy(&none),
           (int)nvPTXCompilerGetErrorLogSize(NULL, &size), (int)nvPTXCompilerGetCompiledProgramSize(NULL, &size));
#ifdef ORIAS_NVPTXCOMPILER_H
    /* What the documentation leaves open. */
    CHECK(nvPTXCompilerGetVersion(NULL, &minor) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerGetNumSupportedVersions(NULL) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerGetSupportedVersions(NULL) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerCreate(NULL, size, ptx) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerCreate(&none, 3, NULL) == NVPTXCOMPILE_ERROR_INVALID_INPUT && none == NULL);
    CHECK(nvPTXCompilerCreate(&none, (size_t)-1, ptx) == NVPTXCOMPILE_ERROR_INVALID_INPUT && none == NULL);
    CHECK(nvPTXCompilerDestroy(NULL) == NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE);
    CHECK(nvPTXCompilerSetFlowCallback(NULL, cancel_at_once, NULL) == NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE);
    nvPTXCompilerHandle compiler = NULL;
    CHECK(nvPTXCompilerCreate(&compiler, strlen(ptx) + 1, ptx) == NVPTXCOMPILE_SUCCESS);
    const char *nothing[] = {"-arch=sm_90a", NULL};
    CHECK(nvPTXCompilerCompile(compiler, 2, nothing) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerCompile(compiler, -1, nothing) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerCompile(compiler, 1, NULL) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerCompile(compiler, 0, NULL) == NVPTXCOMPILE_ERROR_COMPILATION_FAILURE);
    CHECK(nvPTXCompilerCompile(compiler, 1, nothing) == NVPTXCOMPILE_SUCCESS);
    CHECK(nvPTXCompilerGetCompiledProgram(compiler, NULL) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerGetCompiledProgramSize(compiler, NULL) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerGetInfoLog(compiler, NULL) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerGetInfoLogSize(compiler, NULL) == NVPTXCOMPILE_ERROR_INVALID_INPUT);
    CHECK(nvPTXCompilerDestroy(&compiler) == NVPTXCOMPILE_SUCCESS && compiler == NULL);
#endif
    free(ptx);
    return 0;
}
