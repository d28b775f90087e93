//! Launches in a process of their own.
//!
//! A fault on the device ends every context of the process that caused it, and a kernel that never ends never gives its
//! process back. So jobs run in a worker: one line of JSON in, one line out. When a worker dies or says nothing for too
//! long, it is replaced and its job counts as failed; the jobs after it are not touched.

use super::driver::{Buffer, Gpu};
use super::job::{Argument, Job, Outcome, hash};
use super::times;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long one job may take, all its runs together.
const PATIENCE: Duration = Duration::from_secs(60);

/// The worker's side: `cargo xtask gpu worker` reads jobs from standard input until it ends.
pub fn serve() -> Result<(), String> {
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let value = serde_json::from_str(&line)
            .map_err(|error| format!("a job that is not JSON: {error}"))?;
        let outcome = Job::from_json(&value)
            .and_then(|job| run(&gpu, &job))
            .unwrap_or_else(Outcome::Failed);
        writeln!(out, "{}", outcome.to_json()).map_err(|error| error.to_string())?;
        out.flush().map_err(|error| error.to_string())?;
        if gpu.synchronize().is_err() {
            return Err("the device is in error; a new worker is needed".to_owned());
        }
    }
    Ok(())
}

fn run(gpu: &Gpu, job: &Job) -> Result<Outcome, String> {
    let image = std::fs::read(&job.cubin).map_err(|error| format!("{}: {error}", job.cubin))?;
    let driver = |error: super::driver::DriverError| error.to_string();
    let module = gpu.load(&image).map_err(driver)?;
    let kernel = module.kernel(&job.kernel, job.smem).map_err(driver)?;
    let arguments = job.arguments()?;
    let (parameters, buffers) = placed(gpu, &arguments)?;
    let mut first: Option<Vec<u64>> = None;
    for run in 0..job.runs {
        if run > 0 {
            for (buffer, bytes) in &buffers {
                buffer.write(bytes).map_err(driver)?;
            }
        }
        kernel
            .launch(job.grid, job.block, &parameters)
            .map_err(driver)?;
        let left = buffers
            .iter()
            .map(|(buffer, _)| buffer.read().map_err(driver))
            .collect::<Result<Vec<_>, _>>()?;
        if run == 0 && !job.keep.is_empty() {
            for (at, bytes) in left.iter().enumerate() {
                let path = format!("{}.{at}", job.keep);
                std::fs::write(&path, bytes).map_err(|error| format!("{path}: {error}"))?;
            }
        }
        let hashes: Vec<u64> = left.iter().map(|bytes| hash(bytes)).collect();
        match &first {
            None => first = Some(hashes),
            Some(first) if *first != hashes => {
                return Ok(Outcome::Failed(format!(
                    "unstable: run {run} left other buffers than run 0"
                )));
            }
            Some(_) => {}
        }
    }
    Ok(Outcome::Ran {
        buffers: first.unwrap_or_default(),
        rounds: times::race(gpu, job, &parameters, &buffers)?,
    })
}

/// A buffer on the device and its first contents.
pub(super) type Filled<'a> = (Buffer, &'a [u8]);

/// Puts the arguments of a launch where it finds them: the parameters' bytes, and the buffers.
fn placed<'a>(
    gpu: &Gpu,
    arguments: &'a [Argument],
) -> Result<(Vec<Vec<u8>>, Vec<Filled<'a>>), String> {
    let mut buffers = Vec::new();
    let mut parameters = Vec::new();
    for argument in arguments {
        match argument {
            Argument::Scalar(bytes) => parameters.push(bytes.clone()),
            Argument::Buffer(bytes) => {
                let buffer = gpu.buffer(bytes).map_err(|error| error.to_string())?;
                parameters.push(buffer.address().to_le_bytes().to_vec());
                buffers.push((buffer, bytes.as_slice()));
            }
        }
    }
    Ok((parameters, buffers))
}

/// The other side: hands jobs to a worker and replaces it when it is lost.
pub struct Workers {
    current: Option<Worker>,
    patience: Duration,
}

struct Worker {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The child may have ended by itself; either way it must not outlive us.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Workers {
    /// No worker runs before the first job.
    pub fn new() -> Self {
        Self::with_patience(PATIENCE)
    }

    /// Workers that are given up on after another time.
    pub fn with_patience(patience: Duration) -> Self {
        Self {
            current: None,
            patience,
        }
    }

    /// Gives up on the jobs that follow after another time.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Runs one job to its end, or to the end of its worker.
    pub fn run(&mut self, job: &Job) -> Result<Outcome, String> {
        let mut worker = match self.current.take() {
            Some(worker) => worker,
            None => Worker::start()?,
        };
        if writeln!(worker.input, "{}", job.to_json()).is_err() {
            // It ended after its last answer, because of a fault of the job before: this one has not been tried.
            worker = Worker::start()?;
            writeln!(worker.input, "{}", job.to_json())
                .map_err(|error| format!("a new worker: {error}"))?;
        }
        match worker.output.recv_timeout(self.patience) {
            Ok(line) => {
                let value = serde_json::from_str(&line)
                    .map_err(|error| format!("a worker said '{line}': {error}"))?;
                let outcome = Outcome::from_json(&value)?;
                // After a failure the device may be in error: a fresh worker is cheap, a poisoned one is not.
                if matches!(outcome, Outcome::Ran { .. }) {
                    self.current = Some(worker);
                }
                Ok(outcome)
            }
            Err(RecvTimeoutError::Timeout) => {
                Ok(Outcome::Failed(format!("no answer in {:?}", self.patience)))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Ok(Outcome::Failed("the worker ended".to_owned()))
            }
        }
    }
}

/// The lines that a process writes, as they come: read by a thread, so that whoever waits for one can give up.
pub(super) fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Worker {
    fn start() -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(program)
            .args(["gpu", "worker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("a worker did not start: {error}"))?;
        let input = child.stdin.take().ok_or("a worker without input")?;
        let output = child.stdout.take().ok_or("a worker without output")?;
        Ok(Self {
            child,
            input,
            output: lines_of(output),
        })
    }
}
