/*
 * The functions of NVIDIA's PTX Compiler API for CUDA 13.0, made by Orias: a program written for NVIDIA's library is compiled
 * and linked with this one instead. Written from NVIDIA's public documentation; docs/c-library.md says what differs. All
 * functions may be called by several threads at once.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef ORIAS_NVPTXCOMPILER_H
#define ORIAS_NVPTXCOMPILER_H

#include <stddef.h>

/**
 * How a call ended.
 */
typedef enum {
  /**
   * It did what it is for.
   */
  NVPTXCOMPILE_SUCCESS = 0,
  /**
   * The handle is null.
   */
  NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE = 1,
  /**
   * An argument is null or out of range.
   */
  NVPTXCOMPILE_ERROR_INVALID_INPUT = 2,
  /**
   * The PTX or an option is wrong, or not supported yet; the error log says what and where.
   */
  NVPTXCOMPILE_ERROR_COMPILATION_FAILURE = 3,
  /**
   * A bug of the library.
   */
  NVPTXCOMPILE_ERROR_INTERNAL = 4,
  /**
   * There is no memory.
   */
  NVPTXCOMPILE_ERROR_OUT_OF_MEMORY = 5,
  /**
   * There is no program: nothing was compiled with this handle, or not with success.
   */
  NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE = 6,
  /**
   * The PTX is of a version that is not understood.
   */
  NVPTXCOMPILE_ERROR_UNSUPPORTED_PTX_VERSION = 7,
  /**
   * Device code waits for device code; Orias never returns it.
   */
  NVPTXCOMPILE_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 8,
  /**
   * The callback cancelled the compilation.
   */
  NVPTXCOMPILE_ERROR_CANCELLED = 9,
} nvPTXCompileResult;

/**
 * A PTX module, and what came of it.
 */
typedef struct nvPTXCompiler nvPTXCompiler;

/**
 * A compiler, until it is destroyed.
 */
typedef nvPTXCompiler *nvPTXCompilerHandle;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the API, which is that of the CUDA toolkit whose compiler this library stands for.
 */
nvPTXCompileResult nvPTXCompilerGetVersion(unsigned int *major, unsigned int *minor);

/**
 * How many PTX versions are understood.
 */
nvPTXCompileResult nvPTXCompilerGetNumSupportedVersions(int *numVersions);

/**
 * The PTX versions that are understood, major and minor, in ascending order; the array has as many rows as
 * nvPTXCompilerGetNumSupportedVersions says.
 */
nvPTXCompileResult nvPTXCompilerGetSupportedVersions(int (*versions)[2]);

/**
 * Makes a compiler for a PTX module of `ptxCodeLen` bytes, which are copied.
 */
nvPTXCompileResult nvPTXCompilerCreate(nvPTXCompilerHandle *compiler,
                                       size_t ptxCodeLen,
                                       const char *ptxCode);

/**
 * Frees a compiler and everything behind it, and makes the handle null.
 */
nvPTXCompileResult nvPTXCompilerDestroy(nvPTXCompilerHandle *compiler);

/**
 * Compiles the module with these options, each an argument of ptxas's command line; --gpu-name (-arch) must be one.
 */
nvPTXCompileResult nvPTXCompilerCompile(nvPTXCompilerHandle compiler,
                                        int numCompileOptions,
                                        const char *const *compileOptions);

/**
 * Sets a function that is called between phases with the payload and null: 1 to cancel, 0 to go on. It may be called by
 * any thread and must not call this library. Null for none.
 */
nvPTXCompileResult nvPTXCompilerSetFlowCallback(nvPTXCompilerHandle compiler,
                                                int (*callback)(void*, void*),
                                                void *payload);

/**
 * The size of the compiled program in bytes.
 */
nvPTXCompileResult nvPTXCompilerGetCompiledProgramSize(nvPTXCompilerHandle compiler,
                                                       size_t *binaryImageSize);

/**
 * Copies the compiled program to a buffer of its size.
 */
nvPTXCompileResult nvPTXCompilerGetCompiledProgram(nvPTXCompilerHandle compiler, void *binaryImage);

/**
 * The size of the errors of the last compilation in bytes, the zero at the end counted; 0 if there are none.
 */
nvPTXCompileResult nvPTXCompilerGetErrorLogSize(nvPTXCompilerHandle compiler,
                                                size_t *errorLogSize);

/**
 * Copies the errors of the last compilation, and a zero at the end, which is all there is if there are none: the buffer has their size, and at least one byte.
 */
nvPTXCompileResult nvPTXCompilerGetErrorLog(nvPTXCompilerHandle compiler,
                                            char *errorLog);

/**
 * The size of warnings and of what "-v" reports in bytes, the zero at the end counted; 0 if there are none.
 */
nvPTXCompileResult nvPTXCompilerGetInfoLogSize(nvPTXCompilerHandle compiler,
                                               size_t *infoLogSize);

/**
 * Copies warnings and what "-v" reports, and a zero at the end, which is all there is if there are none: the buffer has their size, and at least one byte.
 */
nvPTXCompileResult nvPTXCompilerGetInfoLog(nvPTXCompilerHandle compiler,
                                           char *infoLog);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ORIAS_NVPTXCOMPILER_H */
