//! A safe, small face of the CUDA driver: one context, modules, buffers, launches and their times.
//!
//! The driver library is opened when the first function is called, so everything else in `xtask` works without one.
//! An error on the device (a trap, an illegal address) is final for the process: see [`super::worker`].
#![allow(
    unsafe_code,
    reason = "the driver is a C library; this module is the only place that calls it"
)]

use cudarc::driver::{result, sys};
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::time::Duration;

/// What the driver said, with the call that was refused.
#[derive(Debug)]
pub struct DriverError {
    /// The driver function, or our step, that failed.
    pub call: &'static str,
    /// The driver's own name of the error, such as `CUDA_ERROR_INVALID_IMAGE`.
    pub name: String,
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.call, self.name)
    }
}

fn checked<T>(
    call: &'static str,
    answer: Result<T, result::DriverError>,
) -> Result<T, DriverError> {
    answer.map_err(|error| DriverError {
        call,
        name: format!("{:?}", error.0),
    })
}

/// The first GPU, with a current context.
pub struct Gpu {
    _private: (),
}

impl Gpu {
    /// Opens the driver and makes the first GPU's primary context current on this thread.
    pub fn open() -> Result<Self, DriverError> {
        // SAFETY: plain driver calls with valid arguments; the context lives until the process ends.
        unsafe {
            if !sys::is_culib_present() {
                return Err(DriverError {
                    call: "dlopen",
                    name: "no CUDA driver library on this machine".to_owned(),
                });
            }
            checked("cuInit", result::init())?;
            let device = checked("cuDeviceGet", result::device::get(0))?;
            let context = checked(
                "cuDevicePrimaryCtxRetain",
                result::primary_ctx::retain(device),
            )?;
            checked("cuCtxSetCurrent", result::ctx::set_current(context))?;
        }
        // Recursive kernels state no stack size; the default of 1 KiB is not enough for them.
        checked(
            "cuCtxSetLimit",
            result::ctx::set_limit(sys::CUlimit::CU_LIMIT_STACK_SIZE, 16 << 10),
        )?;
        Ok(Self { _private: () })
    }

    /// The marketing name of the GPU.
    pub fn name(&self) -> Result<String, DriverError> {
        let device = checked("cuDeviceGet", result::device::get(0))?;
        checked("cuDeviceGetName", result::device::get_name(device))
    }

    /// Loads a cubin.
    pub fn load(&self, image: &[u8]) -> Result<Module, DriverError> {
        // SAFETY: the driver reads an ELF image from the pointer and copies it before returning.
        let module = unsafe { result::module::load_data(image.as_ptr().cast::<c_void>()) };
        Ok(Module {
            raw: checked("cuModuleLoadData", module)?,
        })
    }

    /// A device buffer that holds `bytes`.
    pub fn buffer(&self, bytes: &[u8]) -> Result<Buffer, DriverError> {
        // SAFETY: the allocation is at least one byte and as long as the copy.
        unsafe {
            let address = checked("cuMemAlloc", result::malloc_sync(bytes.len().max(1)))?;
            let buffer = Buffer {
                address,
                len: bytes.len(),
            };
            checked("cuMemcpyHtoD", result::memcpy_htod_sync(address, bytes))?;
            Ok(buffer)
        }
    }

    /// A device buffer of `len` bytes that hold anything.
    pub fn room(&self, len: usize) -> Result<Buffer, DriverError> {
        // SAFETY: the allocation is at least one byte.
        let address = checked("cuMemAlloc", unsafe { result::malloc_sync(len.max(1)) })?;
        Ok(Buffer { address, len })
    }

    /// Waits for everything launched so far; a fault on the device is reported here.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        checked("cuCtxSynchronize", result::ctx::synchronize())
    }
}

/// Above so many bytes of dynamic shared memory a kernel asks for a small L1 cache, as Triton's loader does: what it then finds there
/// and what not decides how long some kernels take.
const LARGE_SHARED: u32 = 48 << 10;

/// A loaded cubin; unloaded when dropped.
pub struct Module {
    raw: sys::CUmodule,
}

impl Module {
    /// The kernel called `name`, allowed `dynamic_shared` bytes of dynamic shared memory.
    pub fn kernel(&self, name: &str, dynamic_shared: u32) -> Result<Kernel<'_>, DriverError> {
        let c_name = CString::new(name).map_err(|_| DriverError {
            call: "cuModuleGetFunction",
            name: "the kernel's name holds a NUL byte".to_owned(),
        })?;
        // SAFETY: the module is loaded for as long as the kernel borrows it.
        unsafe {
            let raw = checked(
                "cuModuleGetFunction",
                result::module::get_function(self.raw, c_name),
            )?;
            if dynamic_shared > 0 {
                let bytes = i32::try_from(dynamic_shared).unwrap_or(i32::MAX);
                let attribute =
                    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                checked(
                    "cuFuncSetAttribute",
                    result::function::set_function_attribute(raw, attribute, bytes),
                )?;
            }
            if dynamic_shared > LARGE_SHARED {
                let preference = sys::CUfunc_cache::CU_FUNC_CACHE_PREFER_SHARED;
                checked(
                    "cuFuncSetCacheConfig",
                    result::function::set_function_cache_config(raw, preference),
                )?;
            }
            Ok(Kernel {
                raw,
                dynamic_shared,
                _module: self,
            })
        }
    }
}

impl Module {
    /// The first `len` bytes of a variable of the module.
    pub fn variable(&self, name: &str, len: usize) -> Result<Vec<u8>, DriverError> {
        let wrong = |name: String| DriverError {
            call: "cuModuleGetGlobal",
            name,
        };
        let c_name =
            CString::new(name).map_err(|_| wrong("the name holds a NUL byte".to_owned()))?;
        // SAFETY: the module is loaded; the host slice is no longer than the variable.
        unsafe {
            let found = result::module::get_global(self.raw, c_name);
            let (address, size) = checked("cuModuleGetGlobal", found)?;
            if size < len {
                return Err(wrong(format!("'{name}' has {size} bytes, not {len}")));
            }
            let mut bytes = vec![0; len];
            checked(
                "cuMemcpyDtoH",
                result::memcpy_dtoh_sync(&mut bytes, address),
            )?;
            Ok(bytes)
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the module any more. After a device fault the driver refuses; there is nothing to do then.
        let _ = unsafe { result::module::unload(self.raw) };
    }
}

/// A kernel of a loaded module.
pub struct Kernel<'m> {
    raw: sys::CUfunction,
    dynamic_shared: u32,
    _module: &'m Module,
}

impl Kernel<'_> {
    /// Launches the kernel and waits. `arguments` holds each parameter's bytes, in order.
    pub fn launch(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        arguments: &[Vec<u8>],
    ) -> Result<(), DriverError> {
        self.start(grid, block, arguments)?;
        checked("cuCtxSynchronize", result::ctx::synchronize())
    }

    /// Launches the kernel behind everything launched before, without waiting.
    pub fn start(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        arguments: &[Vec<u8>],
    ) -> Result<(), DriverError> {
        self.enqueue(grid, block, arguments, result::stream::null())
    }

    fn enqueue(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        arguments: &[Vec<u8>],
        stream: sys::CUstream,
    ) -> Result<(), DriverError> {
        let mut pointers: Vec<*mut c_void> = arguments
            .iter()
            .map(|bytes| bytes.as_ptr().cast_mut().cast::<c_void>())
            .collect();
        // SAFETY: the driver copies each parameter's bytes, whose number it takes from the cubin, during the call. The
        // caller states parameters of the kernel's own sizes.
        let launched = unsafe {
            result::launch_kernel(
                self.raw,
                (grid[0], grid[1], grid[2]),
                (block[0], block[1], block[2]),
                self.dynamic_shared,
                stream,
                &mut pointers,
            )
        };
        checked("cuLaunchKernel", launched)
    }
}

/// A launch as a graph repeats it: the kernel (none for its preparations alone), grid, block, arguments.
pub type Repeated<'a> = (Option<&'a Kernel<'a>>, [u32; 3], [u32; 3], &'a [Vec<u8>]);

/// Launches that the device does one after the other without hearing from the host in between.
pub struct Graph<'a> {
    stream: sys::CUstream,
    executable: sys::CUgraphExec,
    times: u32,
    _borrowed: PhantomData<&'a ()>,
}

impl<'a> Graph<'a> {
    /// `times` launches, before each of which the pairs' first buffers are overwritten with the second ones.
    pub fn record(
        repeated: Repeated<'a>,
        restored: &[(&'a Buffer, &'a Buffer)],
        times: u32,
    ) -> Result<Self, DriverError> {
        let (kernel, grid, block, arguments) = repeated;
        let kind = result::stream::StreamKind::NonBlocking;
        let stream = checked("cuStreamCreate", result::stream::create(kind))?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream was created here; nothing else is put into it. Kernels and buffers are borrowed for as long as the graph is there.
        unsafe {
            checked(
                "cuStreamBeginCapture",
                result::stream::begin_capture(stream, mode),
            )?;
            for _ in 0..times {
                for (buffer, first) in restored {
                    buffer.restore(first, stream)?;
                }
                if let Some(kernel) = kernel {
                    kernel.enqueue(grid, block, arguments, stream)?;
                }
            }
            let graph = checked("cuStreamEndCapture", result::stream::end_capture(stream))?;
            let flags = sys::CUgraphInstantiate_flags(0);
            let executable = result::graph::instantiate(graph, flags);
            checked("cuGraphDestroy", result::graph::destroy(graph))?;
            let executable = checked("cuGraphInstantiate", executable)?;
            checked("cuGraphUpload", result::graph::upload(executable, stream))?;
            Ok(Self {
                stream,
                executable,
                times,
                _borrowed: PhantomData,
            })
        }
    }

    /// The time of one launch: that of the whole graph, by events around it, divided.
    pub fn time(&self) -> Result<Duration, DriverError> {
        // SAFETY: both events are created here and destroyed before returning; the graph and its stream are alive.
        unsafe {
            let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
            let start = checked("cuEventCreate", result::event::create(flags))?;
            let end = checked("cuEventCreate", result::event::create(flags))?;
            checked("cuEventRecord", result::event::record(start, self.stream))?;
            checked(
                "cuGraphLaunch",
                result::graph::launch(self.executable, self.stream),
            )?;
            checked("cuEventRecord", result::event::record(end, self.stream))?;
            checked("cuEventSynchronize", result::event::synchronize(end))?;
            let milliseconds = checked("cuEventElapsedTime", result::event::elapsed(start, end))?;
            checked("cuEventDestroy", result::event::destroy(start))?;
            checked("cuEventDestroy", result::event::destroy(end))?;
            Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3) / self.times)
        }
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        // SAFETY: both were created with the graph and are destroyed once. After a device fault the driver refuses.
        unsafe {
            let _ = result::graph::exec_destroy(self.executable);
            let _ = result::stream::destroy(self.stream);
        }
    }
}

/// Device memory, freed when dropped.
pub struct Buffer {
    address: sys::CUdeviceptr,
    len: usize,
}

impl Buffer {
    /// The device address, as a kernel takes it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// What the buffer holds now.
    pub fn read(&self) -> Result<Vec<u8>, DriverError> {
        let mut bytes = vec![0; self.len];
        // SAFETY: the host slice is as long as the allocation.
        checked("cuMemcpyDtoH", unsafe {
            result::memcpy_dtoh_sync(&mut bytes, self.address)
        })?;
        Ok(bytes)
    }

    /// Reads from `offset` on as many bytes as `into` has.
    pub fn read_at(&self, offset: usize, into: &mut [u8]) -> Result<(), DriverError> {
        assert!(
            offset + into.len() <= self.len,
            "what is read lies in the buffer"
        );
        // SAFETY: the bytes lie within the allocation.
        checked("cuMemcpyDtoH", unsafe {
            result::memcpy_dtoh_sync(into, self.address + offset as u64)
        })
    }

    /// Overwrites the buffer with another one that is as long, on the device, when its turn comes.
    fn restore(&self, first: &Buffer, stream: sys::CUstream) -> Result<(), DriverError> {
        assert_eq!(first.len, self.len, "a buffer is restored from its copy");
        if self.len == 0 {
            return Ok(());
        }
        // SAFETY: both allocations are `len` bytes long and live until the device has been waited for.
        checked("cuMemcpyDtoDAsync", unsafe {
            result::memcpy_dtod_async(self.address, first.address, self.len, stream)
        })
    }

    /// Overwrites the buffer with `bytes`, which must be as long as it is.
    pub fn write(&self, bytes: &[u8]) -> Result<(), DriverError> {
        assert_eq!(
            bytes.len(),
            self.len,
            "a buffer is refilled with as many bytes as it has"
        );
        // SAFETY: both sides are `len` bytes long.
        checked("cuMemcpyHtoD", unsafe {
            result::memcpy_htod_sync(self.address, bytes)
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the address came from the allocator and is freed once. After a device fault the driver refuses.
        let _ = unsafe { result::free_sync(self.address) };
    }
}
