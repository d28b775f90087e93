/* orias.h as a program uses it, and as it must not be used.
 * Arguments: a PTX file, where to write its cubin. */
#include "check.h"
#include <orias.h>

static char *log_of(orias_compiler *compiler,
                    orias_result (*get)(const orias_compiler *, char *, size_t, size_t *))
{
    size_t size = 0, again = 0;
    CHECK(get(compiler, NULL, 0, &size) == ORIAS_SUCCESS);
    CHECK(size >= 1);
    char *text = malloc(size);
    CHECK(get(compiler, text, size, &again) == ORIAS_SUCCESS);
    CHECK(again == size && strlen(text) == size - 1);
    return text;
}

static void expect_log(orias_compiler *compiler,
                       orias_result (*get)(const orias_compiler *, char *, size_t, size_t *),
                       const char *part)
{
    char *text = log_of(compiler, get);
    if (strstr(text, part) == NULL) {
        fprintf(stderr, "no '%s' in:\n%s", part, text);
        exit(1);
    }
    free(text);
}

static orias_compiler *with_module(const char *ptx, size_t size)
{
    orias_compiler *compiler = NULL;
    CHECK(orias_compiler_create(&compiler) == ORIAS_SUCCESS);
    CHECK(compiler != NULL);
    CHECK(orias_compiler_add_module(compiler, "kernel.ptx", ptx, size) == ORIAS_SUCCESS);
    CHECK(orias_compiler_add_option(compiler, "--gpu-name=sm_90a") == ORIAS_SUCCESS);
    return compiler;
}

static void compiles(const char *ptx, size_t size, const char *output)
{
    orias_compiler *compiler = with_module(ptx, size);
    size_t needed = 0;
    CHECK(orias_compiler_get_cubin(compiler, NULL, 0, &needed) == ORIAS_ERROR_NOT_COMPILED);
    CHECK(orias_compiler_add_option(compiler, "-v") == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_SUCCESS);
    CHECK(orias_compiler_get_cubin(compiler, NULL, 0, &needed) == ORIAS_SUCCESS);
    CHECK(needed > 64);
    unsigned char *cubin = malloc(needed);
    size_t copied = 0;
    cubin[0] = 'x';
    CHECK(orias_compiler_get_cubin(compiler, cubin, needed - 1, &copied) == ORIAS_ERROR_BUFFER_TOO_SMALL);
    CHECK(copied == needed && cubin[0] == 'x');
    CHECK(orias_compiler_get_cubin(compiler, cubin, needed, &copied) == ORIAS_SUCCESS);
    CHECK(copied == needed && memcmp(cubin, "\177ELF", 4) == 0);
    write_file(output, cubin, needed);
    expect_log(compiler, orias_compiler_get_info_log, "Used ");
    char *errors = log_of(compiler, orias_compiler_get_error_log);
    CHECK(errors[0] == 0);
    size_t peak = 0;
    CHECK(orias_compiler_get_peak_memory(compiler, &peak) == ORIAS_SUCCESS);
    CHECK(peak > size);
    free(errors);
    free(cubin);
    CHECK(orias_compiler_destroy(&compiler) == ORIAS_SUCCESS);
    CHECK(compiler == NULL);
}

static void says_what_is_wrong(void)
{
    const char *ptx = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                      ".visible .entry k()\n{\n  add.u99 %r1, %r2;\n  ret;\n}\n";
    size_t size = 0;
    orias_compiler *compiler = with_module(ptx, strlen(ptx));
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_INPUT);
    expect_log(compiler, orias_compiler_get_error_log, "ptxas kernel.ptx, line 6; error   : ");
    expect_log(compiler, orias_compiler_get_error_log, "ptxas fatal   : Ptx assembly aborted due to errors\n");
    CHECK(orias_compiler_get_cubin(compiler, NULL, 0, &size) == ORIAS_ERROR_NOT_COMPILED);
    orias_compiler_destroy(&compiler);

    compiler = with_module(ptx, strlen(ptx));
    CHECK(orias_compiler_add_option(compiler, "--message-format=json") == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_INPUT);
    expect_log(compiler, orias_compiler_get_error_log, "\"file\":\"kernel.ptx\",");
    expect_log(compiler, orias_compiler_get_error_log, "\"line\":6,");
    orias_compiler_destroy(&compiler);

    compiler = with_module(ptx, strlen(ptx));
    CHECK(orias_compiler_add_option(compiler, "--no-such-option") == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_INPUT);
    expect_log(compiler, orias_compiler_get_error_log, "Unknown option '-no-such-option'");
    orias_compiler_destroy(&compiler);

    const char *not_here[] = {"-o=out", "--options-file=x", "other.ptx", "-", "--help", "--input-as-string=x"};
    for (size_t i = 0; i < sizeof not_here / sizeof *not_here; i++) {
        compiler = with_module(ptx, strlen(ptx));
        CHECK(orias_compiler_add_option(compiler, not_here[i]) == ORIAS_SUCCESS);
        CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_INPUT);
        expect_log(compiler, orias_compiler_get_error_log, "modules come from memory");
        orias_compiler_destroy(&compiler);
    }

    CHECK(orias_compiler_create(&compiler) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_INPUT);
    expect_log(compiler, orias_compiler_get_error_log, "'--gpu-name'");
    CHECK(orias_compiler_add_option(compiler, "-arch=sm_80") == ORIAS_SUCCESS);
    const char *empty = ".version 8.0\n.target sm_80\n.address_size 64\n";
    CHECK(orias_compiler_add_module(compiler, NULL, empty, strlen(empty)) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_UNSUPPORTED);
    expect_log(compiler, orias_compiler_get_error_log, "Not supported yet: code for sm_80");
    orias_compiler_destroy(&compiler);
}

static int never(void *payload)
{
    ++*(int *)payload;
    return 0;
}

/* Goes on as often as the payload says. */
static int some(void *payload)
{
    return (*(int *)payload)-- <= 0;
}

static int cancels(void *payload)
{
    CHECK(orias_compiler_cancel(payload) == ORIAS_SUCCESS);
    return 0;
}

static void ends_when_told(const char *ptx, size_t size)
{
    size_t needed = 0;
    int asked = 0;
    orias_compiler *compiler = with_module(ptx, size);
    CHECK(orias_compiler_set_callback(compiler, never, &asked) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_SUCCESS);
    CHECK(asked > 20);
    for (int at = 0; at < asked; at += asked / 10) {
        int left = at;
        CHECK(orias_compiler_set_callback(compiler, some, &left) == ORIAS_SUCCESS);
        CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_CANCELLED);
        CHECK(orias_compiler_get_cubin(compiler, NULL, 0, &needed) == ORIAS_ERROR_NOT_COMPILED);
        expect_log(compiler, orias_compiler_get_error_log, "ptxas fatal   : Compilation was cancelled\n");
    }
    CHECK(orias_compiler_set_callback(compiler, cancels, compiler) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_CANCELLED);
    CHECK(orias_compiler_set_callback(compiler, NULL, NULL) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_CANCELLED);
    orias_compiler_destroy(&compiler);

    compiler = with_module(ptx, size);
    size_t peak = 0;
    CHECK(orias_compiler_compile(compiler) == ORIAS_SUCCESS);
    CHECK(orias_compiler_get_peak_memory(compiler, &peak) == ORIAS_SUCCESS);
    CHECK(orias_compiler_set_memory_limit(compiler, peak / 2) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_OUT_OF_MEMORY);
    CHECK(orias_compiler_get_cubin(compiler, NULL, 0, &needed) == ORIAS_ERROR_NOT_COMPILED);
    expect_log(compiler, orias_compiler_get_error_log, "more memory than its limit");
    CHECK(orias_compiler_set_memory_limit(compiler, peak * 2) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_SUCCESS);
    CHECK(orias_compiler_set_memory_limit(compiler, 1) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_OUT_OF_MEMORY);
    CHECK(orias_compiler_set_memory_limit(compiler, 0) == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_SUCCESS);
    orias_compiler_destroy(&compiler);
}

static void stands_misuse(const char *ptx, size_t size)
{
    orias_compiler *none = NULL;
    size_t written = 0;
    char buffer[8];
    CHECK(orias_compiler_create(NULL) == ORIAS_ERROR_INVALID_ARGUMENT);
    CHECK(orias_compiler_destroy(NULL) == ORIAS_ERROR_INVALID_ARGUMENT);
    CHECK(orias_compiler_destroy(&none) == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_add_module(NULL, NULL, ptx, size) == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_add_option(NULL, "-v") == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_set_memory_limit(NULL, 1) == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_set_callback(NULL, never, NULL) == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_cancel(NULL) == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_compile(NULL) == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_get_cubin(NULL, buffer, 8, &written) == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_get_error_log(NULL, buffer, 8, &written) == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_get_info_log(NULL, buffer, 8, &written) == ORIAS_ERROR_INVALID_HANDLE);
    CHECK(orias_compiler_get_peak_memory(NULL, &written) == ORIAS_ERROR_INVALID_HANDLE);

    orias_compiler *compiler = with_module(ptx, size);
    CHECK(orias_compiler_add_module(compiler, NULL, NULL, 5) == ORIAS_ERROR_INVALID_ARGUMENT);
    CHECK(orias_compiler_add_module(compiler, NULL, ptx, (size_t)-1) == ORIAS_ERROR_INVALID_ARGUMENT);
    CHECK(orias_compiler_add_option(compiler, NULL) == ORIAS_ERROR_INVALID_ARGUMENT);
    CHECK(orias_compiler_get_error_log(compiler, buffer, 8, NULL) == ORIAS_ERROR_INVALID_ARGUMENT);
    CHECK(orias_compiler_get_error_log(compiler, NULL, 8, &written) == ORIAS_ERROR_INVALID_ARGUMENT);
    CHECK(orias_compiler_get_error_log(compiler, buffer, 0, &written) == ORIAS_ERROR_BUFFER_TOO_SMALL);
    CHECK(orias_compiler_get_peak_memory(compiler, NULL) == ORIAS_ERROR_INVALID_ARGUMENT);
    CHECK(orias_compiler_get_peak_memory(compiler, &written) == ORIAS_SUCCESS && written == 0);
    CHECK(orias_compiler_compile(compiler) == ORIAS_SUCCESS);
    CHECK(orias_compiler_get_cubin(compiler, buffer, 8, NULL) == ORIAS_ERROR_INVALID_ARGUMENT);
    orias_compiler_destroy(&compiler);

    /* The zero at the end of a string counts for nothing; bytes that are no text are an error with a line. */
    compiler = with_module(ptx, size + 1);
    CHECK(orias_compiler_compile(compiler) == ORIAS_SUCCESS);
    orias_compiler_destroy(&compiler);
    compiler = with_module("\xff\xfe\x00\x80", 4);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_INPUT);
    expect_log(compiler, orias_compiler_get_error_log, "line 1; error   : ");
    orias_compiler_destroy(&compiler);
    compiler = with_module(ptx, size);
    CHECK(orias_compiler_add_option(compiler, "-\xff") == ORIAS_SUCCESS);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_INPUT);
    expect_log(compiler, orias_compiler_get_error_log, "is not UTF-8 text");
    orias_compiler_destroy(&compiler);
    compiler = with_module("", 0);
    CHECK(orias_compiler_compile(compiler) == ORIAS_ERROR_INPUT);
    orias_compiler_destroy(&compiler);
    /* Half of a module, at every length. */
    for (size_t length = 0; length < size; length += size / 50 + 1) {
        compiler = with_module(ptx, length);
        orias_compiler_compile(compiler);
        orias_compiler_destroy(&compiler);
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    size_t size = 0;
    char *ptx = read_file(arguments[1], &size);
    unsigned major = 99, minor = 99, patch = 99;
    orias_version(&major, &minor, &patch);
    orias_version(NULL, NULL, NULL);
    CHECK(strcmp(orias_result_name(ORIAS_ERROR_CANCELLED), "ORIAS_ERROR_CANCELLED") == 0);
    CHECK(orias_result_name(-1) == NULL && orias_result_name(1000) == NULL);
    compiles(ptx, size, arguments[2]);
    says_what_is_wrong();
    ends_when_told(ptx, size);
    stands_misuse(ptx, size);
    free(ptx);
    printf("orias %u.%u.%u\n", major, minor, patch);
    return 0;
}
