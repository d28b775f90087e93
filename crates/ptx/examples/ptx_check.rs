//! Parses PTX files and prints what is wrong with them: `cargo run --release --example ptx_check -- FILES`.
//!
//! With `--time` first, reads each file twice and prints lines a second and bytes an instruction instead.

use std::time::Instant;

fn main() {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let timed = files.first().is_some_and(|first| first == "--time");
    if timed {
        files.remove(0);
    }
    let (mut lines, mut seconds, mut refused) = (0, 0.0, 0);
    for file in &files {
        let source = match std::fs::read(file) {
            Ok(source) => source,
            Err(error) => {
                eprintln!("{file}: {error}");
                continue;
            }
        };
        let started = Instant::now();
        let (module, mut diagnostics) = orias_ptx::parse(&source);
        diagnostics.append(orias_ptx::check(&module, &orias_ptx::Options::default()));
        seconds += started.elapsed().as_secs_f64();
        lines += source.iter().filter(|&&byte| byte == b'\n').count();
        drop(module);
        if diagnostics.has_errors() {
            refused += 1;
        }
        if !timed {
            print!("{}", diagnostics.to_excerpts(file, &source));
        }
    }
    println!(
        "{} files, {refused} refused, {lines} lines, {:.0} lines a second",
        files.len(),
        lines as f64 / seconds.max(1e-9)
    );
}
