//! Gives the shared library the name that programs look for at run time, so that it may be called what it is when it is handed out.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let name = match system.as_str() {
        "linux" => "-Wl,-soname,liborias.so.0",
        "macos" => "-Wl,-install_name,@rpath/liborias.0.dylib",
        _ => return,
    };
    println!("cargo::rustc-cdylib-link-arg={name}");
}
