/*
 * Orias, an open PTX assembler: PTX in, cubin out.
 *
 * Make a handle, add modules and options, compile, copy the cubin or the logs. Everything that is handed over is copied, and
 * everything that is handed out is copied to memory of the caller; only the handle itself must be destroyed. Any number of
 * threads may use any number of handles, and the same one. A pointer that is not null must point to what its type says, a
 * handle must not be used after it was destroyed, and a buffer must be as large as said. docs/c-library.md has an example.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef ORIAS_H
#define ORIAS_H

#include <stddef.h>

/**
 * How a call ended.
 */
typedef enum {
  /**
   * It did what it is for.
   */
  ORIAS_SUCCESS = 0,
  /**
   * The handle is null.
   */
  ORIAS_ERROR_INVALID_HANDLE = 1,
  /**
   * An argument is null, or no object can be as large as it says.
   */
  ORIAS_ERROR_INVALID_ARGUMENT = 2,
  /**
   * The PTX or an option is wrong; the error log says what and where.
   */
  ORIAS_ERROR_INPUT = 3,
  /**
   * The PTX is right and cannot be compiled yet; the error log names what is missing.
   */
  ORIAS_ERROR_UNSUPPORTED = 4,
  /**
   * A bug of Orias, whatever the input was; the error log describes it.
   */
  ORIAS_ERROR_INTERNAL = 5,
  /**
   * The compilation took more memory than its limit.
   */
  ORIAS_ERROR_OUT_OF_MEMORY = 6,
  /**
   * The compilation was cancelled.
   */
  ORIAS_ERROR_CANCELLED = 7,
  /**
   * There is no cubin: nothing was compiled with this handle, or not with success.
   */
  ORIAS_ERROR_NOT_COMPILED = 8,
  /**
   * The buffer is smaller than what it is to hold. Nothing was written to it.
   */
  ORIAS_ERROR_BUFFER_TOO_SMALL = 9,
} orias_result;

/**
 * What to compile and what came of it. Handles share nothing; several threads may use one, too.
 */
typedef struct orias_compiler orias_compiler;

/**
 * Asked between the phases of a compilation, with the payload it was set with: 0 to go on, anything else to cancel.
 * It may be called by any thread, must not unwind, and must not destroy the handle.
 */
typedef int (*orias_callback)(void *payload);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library; a pointer may be null if its part is not wanted.
 */
void orias_version(unsigned int *major, unsigned int *minor, unsigned int *patch);

/**
 * The name of a result, as this header has it; null if there is none with this number. It is never to be freed.
 */
const char *orias_result_name(int result);

/**
 * Makes a handle, which is the caller's until `orias_compiler_destroy`.
 */
orias_result orias_compiler_create(orias_compiler **compiler);

/**
 * Frees a handle and everything behind it, and makes the pointer null. No other call may be at work on it.
 */
orias_result orias_compiler_destroy(orias_compiler **compiler);

/**
 * Adds a PTX module of `size` bytes, which are copied; zeros at its end do not count. Messages call it `name`, or what
 * ptxas calls a module without a file if that is null. Several modules become one cubin.
 */
orias_result orias_compiler_add_module(const orias_compiler *compiler,
                                       const char *name,
                                       const char *ptx,
                                       size_t size);

/**
 * Adds an option as ptxas takes it, one argument of its command line ("--gpu-name=sm_90a", "-O3", "-v"); it is copied.
 * What is wrong with it is found when it is used. Without a target nothing can be compiled; options that name files
 * (-o, --options-file) have no place here.
 */
orias_result orias_compiler_add_option(const orias_compiler *compiler,
                                       const char *option);

/**
 * Sets the most memory, in bytes, that a compilation may have at a time; 0 for no limit. It is looked at between phases,
 * so a single phase may take more before the compilation ends. With a limit, the calling thread compiles alone.
 */
orias_result orias_compiler_set_memory_limit(const orias_compiler *compiler,
                                             size_t bytes);

/**
 * Sets a function that is asked between phases whether to cancel, and what it is handed; null for none.
 */
orias_result orias_compiler_set_callback(const orias_compiler *compiler,
                                         orias_callback callback,
                                         void *payload);

/**
 * Cancels the compilation that another thread has at work with this handle, and all that would follow with it: they end
 * with ORIAS_ERROR_CANCELLED before their next phase.
 */
orias_result orias_compiler_cancel(const orias_compiler *compiler);

/**
 * Compiles the modules that were added, with the options that were added, into one cubin. What the compilation before
 * left with this handle, cubin and logs, is gone; an error leaves no cubin.
 */
orias_result orias_compiler_compile(const orias_compiler *compiler);

/**
 * Copies the cubin to a buffer of `capacity` bytes and writes its size to `size`; with a buffer of null and a capacity
 * of 0, only the size. It is empty where the target is virtual (compute_90a): the modules were only checked.
 */
orias_result orias_compiler_get_cubin(const orias_compiler *compiler,
                                      void *buffer,
                                      size_t capacity,
                                      size_t *size);

/**
 * Copies the errors of the last compilation, a line each as ptxas has them, to a buffer of `capacity` bytes, and writes
 * to `size` how many it takes with the zero at the end; with a buffer of null and a capacity of 0, only that.
 */
orias_result orias_compiler_get_error_log(const orias_compiler *compiler,
                                          char *buffer,
                                          size_t capacity,
                                          size_t *size);

/**
 * The same for warnings and for what "-v" reports.
 */
orias_result orias_compiler_get_info_log(const orias_compiler *compiler,
                                         char *buffer,
                                         size_t capacity,
                                         size_t *size);

/**
 * The most memory, in bytes, that the calling thread had at a time during the last compilation; 0 before the first.
 */
orias_result orias_compiler_get_peak_memory(const orias_compiler *compiler,
                                            size_t *bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ORIAS_H */
