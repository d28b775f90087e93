//! Sessions on many threads at once: the same bytes whoever else compiles, errors that stay with the session they belong to, and those
//! that are cancelled or get too little memory, which end. `docs/testing.md` says how to run this under ThreadSanitizer.

use orias_session::memory::Counted;
use orias_session::{Session, Verdict};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// As the libraries have it, so that limits count.
#[global_allocator]
static ALLOCATOR: Counted = Counted;

const THREADS: usize = 8;
/// Two compilations each: a thousand of them on all threads.
const ROUNDS: usize = 63;

/// The kernels of the benchmarks, by name.
fn kernels() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kernels");
    let files = std::fs::read_dir(folder).expect("a folder");
    let mut kernels: Vec<(String, Vec<u8>)> = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|it| it == "ptx"))
        .map(|path| {
            let text = std::fs::read(&path).expect("read");
            (path.display().to_string(), text)
        })
        .collect();
    kernels.sort();
    assert!(kernels.len() > 2);
    kernels
}

fn session(text: &[u8], options: &[&str]) -> Session {
    let session = Session::default();
    session.add_module(None, text);
    for option in options {
        session.add_option(option.as_bytes());
    }
    session
}

fn cubin(text: &[u8], options: &[&str]) -> Vec<u8> {
    let session = session(text, options);
    let verdict = session.compile();
    let outcome = session.outcome().expect("an outcome");
    assert_eq!(verdict, Verdict::Compiled, "{}", outcome.error_log);
    outcome.cubin.clone()
}

#[test]
fn many_threads_compile_what_one_does() {
    let kernels = kernels();
    let alone: Vec<Vec<u8>> = kernels
        .iter()
        .map(|(_, text)| cubin(text, &["-arch=sm_90a"]))
        .collect();
    let compiled = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (kernels, alone, compiled) = (&kernels, &alone, &compiled);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let at = (number + round) % kernels.len();
                    let (name, text) = &kernels[at];
                    // Threads of its own inside one of many threads.
                    let split = ["-arch=sm_90a", "--split-compile=3"];
                    let options = &split[..1 + round % 2];
                    assert_eq!(cubin(text, options), alone[at], "{name}");
                    fail(number, round, text);
                    compiled.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(compiled.into_inner(), 2 * THREADS * ROUNDS);
}

/// A compilation that fails: by its PTX, by its memory, or because it is cancelled on its way.
fn fail(number: usize, round: usize, text: &[u8]) {
    match (number + round) % 3 {
        0 => {
            let line = 6 + (number * 17 + round) % 90;
            let head = ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k()\n{\n";
            let wrong = format!("{head}{}wrong;\n}}\n", "\n".repeat(line - 6));
            let session = session(wrong.as_bytes(), &["-arch=sm_90a"]);
            assert_eq!(session.compile(), Verdict::Refused);
            let log = &session.outcome().expect("an outcome").error_log;
            assert!(log.contains(&format!(", line {line}; error")), "{log}");
        }
        1 => {
            let session = session(text, &["-arch=sm_90a"]);
            session.set_memory_limit(Some(40_000));
            assert_eq!(session.compile(), Verdict::OutOfMemory);
            assert!(session.outcome().is_some_and(|it| it.cubin.is_empty()));
        }
        _ => {
            let session = session(text, &["-arch=sm_90a"]);
            let left = AtomicUsize::new(round % 20);
            session.set_watch(Some(Arc::new(move || {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1))
                    .is_err()
            })));
            assert_eq!(session.compile(), Verdict::Cancelled);
            assert!(session.outcome().is_some_and(|it| it.cubin.is_empty()));
        }
    }
}

#[test]
fn one_session_may_be_compiled_read_and_cancelled_by_several_threads() {
    let (_, text) = &kernels()[0];
    for _ in 0..12 {
        let session = Arc::new(session(text, &["-arch=sm_90a"]));
        let others: Vec<_> = (0..3)
            .map(|_| {
                let session = Arc::clone(&session);
                thread::spawn(move || session.compile())
            })
            .collect();
        session.add_option(b"-v");
        let _ = session.outcome();
        session.cancel();
        for other in others {
            let verdict = other.join().expect("no panic");
            assert!(matches!(verdict, Verdict::Compiled | Verdict::Cancelled));
        }
        assert_eq!(session.compile(), Verdict::Cancelled);
        assert!(session.outcome().is_some_and(|it| it.cubin.is_empty()));
    }
}
