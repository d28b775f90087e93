//! Links the command at a fixed address on Linux.
//!
//! The instruction tables are full of pointers. In a position-independent executable the dynamic linker adjusts every one of them at each
//! start, 80,000 relocations that touch 430 pages; compiling a small kernel does not take much longer than that.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bin=orias=-no-pie");
    }
}
