//! The `orias` command as a user meets it: streams, exit codes and files.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(program: &Path, arguments: &[&str], folder: &Path, input: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // A command that does not read its input closes the pipe early.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("the command ends")
}

fn orias(arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    orias_in(folder.path(), arguments, b"")
}

fn orias_in(folder: &Path, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let output = command(
        Path::new(env!("CARGO_BIN_EXE_orias")),
        arguments,
        folder,
        input,
    );
    (
        output.status.code().expect("an exit code"),
        String::from_utf8(output.stdout).expect("text"),
        String::from_utf8(output.stderr).expect("text"),
    )
}

#[test]
fn the_version_is_in_the_form_clients_search() {
    for spelling in ["--version", "-V"] {
        let (code, output, messages) = orias(&[spelling]);
        assert_eq!((code, messages.as_str()), (0, ""));
        assert!(output.contains("release 13.0, V13.0.88"), "{output}");
        assert!(output.contains("Orias"), "{output}");
    }
}

#[test]
fn the_versions_of_ptx_are_listed_one_a_line() {
    let (code, output, _) = orias(&["--list-version"]);
    assert_eq!(code, 0);
    assert_eq!(output.lines().next(), Some("1.0"));
    assert_eq!(output.lines().last(), Some("9.0"));
    assert_eq!(output.lines().count(), 44);
}

#[test]
fn help_names_the_subcommands_and_the_options() {
    for arguments in [&["--help"][..], &["-h"], &["help"], &[]] {
        let (code, output, _) = orias(arguments);
        assert_eq!(code, 0);
        for part in ["knobs", "--gpu-name <gpu>", "(-arch)", "--maxrregcount"] {
            assert!(output.contains(part), "{arguments:?}: {output}");
        }
    }
    let (code, output, _) = orias(&["help", "knobs"]);
    assert_eq!(code, 0);
    assert!(output.contains("Usage: orias knobs"), "{output}");
    let (code, _, messages) = orias(&["help", "knobz"]);
    assert_eq!(code, 2);
    assert!(messages.contains("did you mean 'knobs'?"), "{messages}");
}

#[test]
fn subcommands_called_wrongly_exit_with_2() {
    let (code, _, messages) = orias(&["knobs", "--nonsense"]);
    assert_eq!(code, 2);
    assert!(messages.contains("--nonsense"), "{messages}");
}

#[test]
fn rescheduling_asks_for_something_to_do() {
    let (code, _, messages) = orias(&["reschedule", "kernel.cubin"]);
    assert_eq!(code, 2);
    assert!(messages.contains("--output"), "{messages}");
    let (code, _, messages) = orias(&["reschedule", "k", "--control-only", "--shuffle", "1"]);
    assert_eq!(code, 2);
    assert!(messages.contains("--control-only"), "{messages}");
    let (code, _, messages) = orias(&["reschedule", "nofile.cubin", "-o", "out.cubin"]);
    assert_eq!(code, 1);
    assert!(messages.contains("nofile.cubin"), "{messages}");
}

#[test]
fn a_misspelt_knob_is_found_out() {
    let (code, _, messages) = orias(&["knobs", "GeneralOptimizeKep"]);
    assert_eq!(code, 1);
    assert!(
        messages.contains("did you mean 'GeneralOptimizeKeep'?"),
        "{messages}"
    );
}

#[test]
fn bad_options_and_missing_files_are_fatal_in_the_words_of_ptxas() {
    for (arguments, expected) in [
        (&["--foo"][..], "ptxas fatal   : Unknown option '-foo'\n"),
        (
            &["nofile.ptx", "nofile2.ptx"],
            "ptxas fatal   : Input file 'nofile.ptx' could not be opened\n\
             ptxas fatal   : Input file 'nofile2.ptx' could not be opened\n\
             ptxas fatal   : Ptx assembly aborted due to errors\n",
        ),
        (
            &["-dlcm=zz", "a.ptx"],
            "ptxas error   : Invalid default cache modifier on load specified: zz\n\
             ptxas fatal   : Ptx assembly aborted due to errors\n",
        ),
        (
            &["-optf", "nofile", "a.ptx"],
            "ptxas fatal   : Could not open options file 'nofile'\n",
        ),
    ] {
        let (code, output, messages) = orias(arguments);
        assert_eq!((code, output.as_str()), (255, ""), "{arguments:?}");
        assert_eq!(messages, expected, "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn messages_can_be_json() {
    let json = "--message-format=json";
    let (code, _, messages) = orias(&["-arch=sm_9", "x.ptx", json]);
    let fatal = "{\"kind\":\"input\",\"message\":\"Value 'sm_9' is not defined for option 'gpu-name'\",\"severity\":\"fatal\"}\n";
    assert_eq!((code, messages.as_str()), (255, fatal));
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = b".version 8.0\n.target sm_90a\n.address_size 64\nwrong\n";
    let (code, _, messages) = orias_in(folder.path(), &["-arch=sm_90a", "-", json], wrong);
    assert_eq!(code, 255);
    let place = "{\"column\":1,\"file\":\"<stdin>\",\"hint\":\"expected a directive\",\"kind\":\"input\",\"line\":4,";
    assert!(messages.starts_with(place), "{messages}");
    assert!(
        messages.ends_with(",\"severity\":\"fatal\"}\n"),
        "{messages}"
    );
    let (_, _, plain) = orias(&["-arch=sm_9", "x.ptx", "--message-format=text"]);
    assert!(plain.starts_with("ptxas fatal   : "), "{plain}");
}

#[test]
fn under_the_name_of_ptxas_there_are_no_subcommands() {
    let folder = tempfile::tempdir().expect("a folder");
    let ptxas = folder.path().join("ptxas");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_orias"), &ptxas).expect("a link");
    let output = command(&ptxas, &["knobs"], folder.path(), b"");
    assert_eq!(output.status.code(), Some(255));
    assert_eq!(
        String::from_utf8(output.stderr).expect("text"),
        "ptxas fatal   : Input file 'knobs' could not be opened\n\
         ptxas fatal   : Ptx assembly aborted due to errors\n"
    );
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let output = Command::new(env!("CARGO_BIN_EXE_orias"))
        .arg(std::ffi::OsStr::from_bytes(b"a\xff.ptx"))
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not UTF-8 text"));
}

/// 40 values that are alive at once do not fit into 24 registers: the change is left out, and that is said.
/// 32 sums of a product do not fit into 24 registers; 40 values are spilled.
#[test]
fn a_register_count_that_code_cannot_keep_to_is_left_out_with_a_message() {
    let sums: Vec<String> = (0..32).map(|sum| format!("%f{sum}")).collect();
    let product = format!(
        "wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{}}}, %d, %d, 1, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
        sums.join(",")
    );
    let mut values = String::new();
    for value in 0..40 {
        values += &format!("ld.volatile.global.u32 %r{value}, [%d+{}];\n", 4 * value);
    }
    for value in (0..40).rev() {
        values += &format!("st.volatile.global.u32 [%d+{}], %r{value};\n", 4 * value);
    }
    let stores: String = (0..32)
        .map(|sum| format!("st.global.f32 [%d+{}], %f{sum};\n", 4 * sum))
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    for (body, said) in [(format!("{product}{stores}"), true), (values, false)] {
        let module = format!(
            ".version 8.6\n.target sm_90a\n.address_size 64\n\
             .visible .entry k(.param .u64 o) .maxntid 256, 1, 1 .minnctapersm 1\n{{ .reg .b32 %r<64>; .reg .f32 %f<32>; .reg .b64 %d;\n\
             ld.param.u64 %d, [o];\nsetmaxnreg.dec.sync.aligned.u32 24;\n{body}ret; }}\n"
        );
        std::fs::write(folder.path().join("a.ptx"), module).expect("written");
        let arguments = ["-arch=sm_90a", "a.ptx", "-o", "a.cubin"];
        let (code, _, messages) = orias_in(folder.path(), &arguments, b"");
        assert_eq!(code, 0, "{messages}");
        assert_eq!(
            messages.contains("'setmaxnreg' ignored in 'k'"),
            said,
            "{messages}"
        );
    }
}

/// What is said of a kernel whose body stands between a load of 80 values and its end; it compiles.
fn compiled_with_counts(body: &str) -> String {
    let loads: String = (0..80)
        .map(|value| format!("ld.volatile.global.u32 %r{value}, [%d+{}];\n", 4 * value))
        .collect();
    let module = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 o) .maxntid 384, 1, 1 .minnctapersm 1\n{{ .reg .b32 %r<82>; .reg .b64 %d; .reg .pred %p;\n\
         ld.param.u64 %d, [o];\nmov.u32 %r81, %ctaid.x;\n{loads}{body}ret; }}\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.ptx"), module).expect("written");
    let arguments = ["-arch=sm_90a", "a.ptx", "-o", "a.cubin"];
    let (code, _, messages) = orias_in(folder.path(), &arguments, b"");
    assert_eq!(code, 0, "{messages}");
    messages
}

fn stores_of_counted_values() -> String {
    (0..80)
        .map(|value| format!("st.volatile.global.u32 [%d+{}], %r{value};\n", 4 * value))
        .collect()
}

/// Of 80 values one goes to warps that keep 24 registers: it lies among those.
#[test]
fn values_lie_where_warps_with_few_registers_have_them() {
    let body = format!(
        "setp.eq.u32 %p, %r81, 0;\n@%p bra CONSUMER;\nsetmaxnreg.dec.sync.aligned.u32 24;\n\
         st.volatile.global.u32 [%d+400], %r79;\nret;\nCONSUMER:\nsetmaxnreg.inc.sync.aligned.u32 240;\n{}",
        stores_of_counted_values()
    );
    let messages = compiled_with_counts(&body);
    assert!(!messages.contains("ignored"), "{messages}");
}

/// 80 values live while a warp has 24 registers, though nothing names them there: they lie in memory meanwhile.
#[test]
fn values_live_through_a_time_with_few_registers() {
    let body = format!(
        "setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 240;\n{}",
        stores_of_counted_values()
    );
    let messages = compiled_with_counts(&body);
    assert!(!messages.contains("ignored"), "{messages}");
}

#[test]
fn what_cannot_be_compiled_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let module = ".version 8.0\n.target sm_90a\n.address_size 64\n\
                  .visible .entry k() { .reg .b32 r; .local .b8 huge[2147483648]; ld.local.b32 r, [huge]; st.local.b32 [huge], r; ret; }\n";
    std::fs::write(folder.path().join("a.ptx"), module).expect("written");
    std::fs::write(folder.path().join("old"), "old").expect("written");
    for arguments in [
        &["-arch=sm_90a", "a.ptx"][..],
        &["-arch=sm_90a", "a.ptx", "-o", "old"],
        &["-arch=sm_90a", "-ias", module],
    ] {
        let (code, _, messages) = orias_in(folder.path(), arguments, b"");
        assert_eq!(code, 255);
        assert!(
            messages.contains("not supported yet") && messages.contains("a frame of 2 GB"),
            "{messages}"
        );
    }
    let (code, _, _) = orias_in(folder.path(), &["-arch=sm_90a", "-"], module.as_bytes());
    assert_eq!(code, 255);
    assert!(!folder.path().join("elf.o").exists());
    let old = std::fs::read_to_string(folder.path().join("old")).expect("read");
    assert_eq!(old, "old");
}

/// A folder with a good module, a bad one, and an Ori function.
fn workshop() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    let head = ".version 8.0\n.target sm_90a\n.address_size 64\n";
    write(
        "good.ptx",
        &format!("{head}.visible .entry k() {{ ret; }}\n"),
    );
    write(
        "bad.ptx",
        &format!("{head}.visible .entry k() {{ foo; ret; }}\n"),
    );
    write(
        "f.ori",
        "func f abstract sm_90a -> r {\nblock0(v0:r):\n    v1:r = mov.b32 v0\n    ret v1\n}\n",
    );
    write(
        "broken.ori",
        "func f abstract sm_90a -> r {\nblock0:\n    ret v1\n}\n",
    );
    write(
        "broken_edge.ori",
        "func f abstract sm_90a {\nblock0(v0:r):\n    br -> block1\nblock1(v1:r):\n    ret\n}\n",
    );
    write(
        "malformed.ori",
        "func f abstract sm_90a {\nblock0:\n    frob\n}\n",
    );
    write("knobs", "GeneralOptimizeKeep = always\n");
    folder
}

#[test]
fn a_virtual_target_checks_and_writes_nothing() {
    let folder = workshop();
    let in_folder = |arguments: &[&str]| orias_in(folder.path(), arguments, b"");
    assert_eq!(
        in_folder(&["-arch=compute_90a", "good.ptx"]),
        (0, String::new(), String::new())
    );
    let (code, _, messages) = in_folder(&["-arch=compute_90a", "bad.ptx"]);
    assert_eq!(code, 255);
    assert!(
        messages.starts_with(
            "ptxas bad.ptx, line 4; error   : Not a name of any known instruction: 'foo'"
        ),
        "{messages}"
    );
    assert!(messages.ends_with("ptxas fatal   : Ptx assembly aborted due to errors\n"));
    assert_eq!(
        in_folder(&["-arch=compute_90", "good.ptx"]).2,
        "ptxas fatal   : PTX with .target 'sm_90a' cannot be compiled for architecture 'compute_90'\n"
    );
    // Names are looked up where there is code to make.
    let named = ["-arch=compute_90a", "good.ptx", "-e", "k,nope"];
    assert_eq!(in_folder(&named), (0, String::new(), String::new()));
    // For what a linker would compile, ptxas only checks as well.
    let plain = ".version 8.0\n.target sm_90\n.address_size 64\n";
    std::fs::write(folder.path().join("plain.ptx"), plain).expect("written");
    assert_eq!(
        in_folder(&["-arch=lto_90", "plain.ptx"]),
        (0, String::new(), String::new())
    );
    assert!(!folder.path().join("elf.o").exists());
}

#[test]
fn entries_are_asked_for_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let module = ".version 8.0\n.target sm_90a\n.address_size 64\n.func f() { ret; }\n.visible .entry one() { call f; ret; }\n.visible .entry two() { ret; }\n";
    std::fs::write(folder.path().join("m.ptx"), module).expect("written");
    std::fs::write(
        folder.path().join("n.ptx"),
        module.replace("two", "three").replace("one", "four"),
    )
    .expect("written");
    let compiled = |words: &[&str]| {
        let line = [&["-arch=sm_90a", "-o", "m.cubin"], words].concat();
        let (code, _, said) = orias_in(folder.path(), &line, b"");
        let shown = orias_in(folder.path(), &["elf", "m.cubin"], b"").1;
        let lines = shown.lines().filter(|line| line.starts_with("kernel"));
        let kernels = lines.filter_map(|line| line.split([' ', ':']).nth(1));
        (code, said, kernels.collect::<Vec<_>>().join(" "))
    };
    let kernels = |words| compiled(words).2;
    assert_eq!(kernels(&["-e", "two", "m.ptx"]), "two");
    // A linker may want the others, and so may who follows the code of a function.
    assert_eq!(kernels(&["-c", "-e", "two", "m.ptx"]), "one two");
    assert_eq!(kernels(&["-g", "-e", "two", "m.ptx"]), "one two");
    assert_eq!(kernels(&["-c", "-e", "f", "m.ptx"]), "one two");
    assert_eq!(kernels(&["-e", "three", "m.ptx", "n.ptx"]), "three");
    let (code, said, _) = compiled(&["-e", "f", "m.ptx"]);
    assert_eq!(
        (code, said.as_str()),
        (
            255,
            "ptxas error   : Entry function 'f' not found\nptxas fatal   : Ptx assembly aborted due to errors\n"
        )
    );
    let (code, said, _) = compiled(&["-c", "-e", "two,no,nor", "m.ptx"]);
    assert_eq!(
        (code, said.as_str()),
        (255, "ptxas fatal   : Unknown function no\n")
    );
}

#[test]
fn modules_compiled_together_keep_what_is_theirs() {
    let folder = tempfile::tempdir().expect("a folder");
    let module = |kernel: &str, constant: u32, variable: u32, seen: &str| {
        format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n{seen}\n.const .u32 c = {constant};\n.global .u32 v = {variable};\n.global .u64 at[1] = {{v}};
             .func (.param .b32 r) add(.param .b32 a) {{ .reg .b32 r<4>; .reg .pred p; ld.param.b32 r1, [a]; ld.const.u32 r2, [c]; setp.eq.u32 p, r1, 0; @p bra END;
             sub.u32 r1, r1, 1; {{ .param .b32 q; .param .b32 o; st.param.b32 [q], r1; call (o), add, (q); ld.param.b32 r3, [o]; }} add.u32 r2, r2, r3; END: st.param.b32 [r], r2; ret; }}
             .visible .entry {kernel}(.param .u64 p) {{ .reg .b64 d<4>; .reg .b32 r<4>; ld.param.u64 d1, [p]; ld.global.u64 d2, [at]; ld.u32 r1, [d2];
             {{ .param .b32 q; .param .b32 o; st.param.b32 [q], 2; call (o), add, (q); ld.param.b32 r2, [o]; }} add.u32 r1, r1, r2; ld.global.u32 r3, [seen]; add.u32 r1, r1, r3; st.global.u32 [d1], r1; ret; }}"
        )
    };
    let write = |name: &str, text: String| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    write(
        "a.ptx",
        module("one", 10, 1, ".visible .global .u32 seen = 500;"),
    );
    write("b.ptx", module("two", 100, 2, ".extern .global .u32 seen;"));
    write(
        "twice.ptx",
        module("three", 1, 1, ".visible .global .u32 seen;"),
    );
    let in_folder = |words: &[&str]| orias_in(folder.path(), words, b"");
    for files in [["a.ptx", "b.ptx"], ["b.ptx", "a.ptx"]] {
        for level in ["-O0", "-O3"] {
            let line = [&["-arch=sm_90", "-w", level, "-o", "all.cubin"], &files[..]].concat();
            assert_eq!(in_folder(&line), (0, String::new(), String::new()));
            for (kernel, sum) in [("one", "531"), ("two", "802")] {
                let run = ["run", "all.cubin", "--kernel", kernel, "buf:u32:1"];
                let (code, shown, said) = in_folder(&run);
                let shown = shown.split_whitespace().last();
                assert_eq!(
                    (code, shown, said.as_str()),
                    (0, Some(sum), ""),
                    "{files:?} {level}"
                );
            }
        }
        let line = [&["-arch=sm_90", "-c", "-o", "all.o"], &files[..]].concat();
        assert_eq!(in_folder(&line), (0, String::new(), String::new()));
    }
    let (code, _, said) = in_folder(&["-arch=sm_90", "a.ptx", "twice.ptx"]);
    assert_eq!(code, 255);
    assert!(
        said.starts_with(
            "ptxas twice.ptx, line 4; error   : Duplicate definition of variable 'seen'"
        ),
        "{said}"
    );
}

#[test]
fn a_kernel_has_stack_for_what_it_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let function = |name: &str, bytes: u32, then: &str| {
        format!(
            ".func {name}(.param .b32 n) {{ .local .align 8 .b8 array[{bytes}]; .reg .b64 d<3>; .reg .b32 r; cvta.local.u64 d1, array; ld.param.u32 r, [n];
             mul.wide.u32 d2, r, 4; add.u64 d1, d1, d2; st.u32 [d1], r; {then} ld.volatile.u32 r, [d1]; ret; }}\n"
        )
    };
    // Both are reached through pointers; the larger one calls the third.
    let call = "{ .param .b32 q; st.param.b32 [q], r; call third, (q); }";
    let module = ".version 9.0\n.target sm_90\n.address_size 64\n".to_owned()
        + &function("third", 2048, "mov.u64 d2, third;")
        + &function("small", 256, "")
        + &function("large", 1024, call)
        + ".global .u64 table[3] = {small, large, third};
           .visible .entry k(.param .u32 which) { .reg .b32 r; .reg .b64 d<3>; ld.param.u32 r, [which]; mul.wide.u32 d1, r, 8; mov.u64 d2, table; add.u64 d1, d1, d2; ld.u64 d1, [d1];
           { .param .b32 q; st.param.b32 [q], r; pr: .callprototype _ (.param .b32 _); call d1, (q), pr; } ret; }
           .visible .entry other() { ret; }";
    std::fs::write(folder.path().join("m.ptx"), module).expect("written");
    let in_folder = |words: &[&str]| orias_in(folder.path(), words, b"");
    for level in ["-O0", "-O3", "-g"] {
        let (code, _, said) = in_folder(&["-arch=sm_90", "-v", level, "m.ptx", "-o", "m.cubin"]);
        assert_eq!(code, 0, "{said}");
        let shown = in_folder(&["elf", "m.cubin"]).1;
        let stack = |kernel: &str| -> u32 {
            let start = format!("MIN_STACK_SIZE                     {kernel}: ");
            let line = shown
                .lines()
                .find_map(|line| line.trim().strip_prefix(&start));
            line.expect("a stack").parse().expect("a number")
        };
        assert!(
            (3072..3300).contains(&stack("k")),
            "{level}: {}",
            stack("k")
        );
        assert_eq!(stack("other"), 0);
        let told = format!("{} bytes cumulative stack size", stack("k"));
        assert!(said.contains(&told), "{level}: {said}");
    }
    // A linker adds up what an object's functions need.
    let said = in_folder(&["-arch=sm_90", "-v", "-c", "m.ptx"]).2;
    assert!(!said.contains("cumulative"), "{said}");
}

#[test]
fn limits_nobody_has_are_ignored_with_a_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |head: &str, options: &str| {
        let module = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {head} {{ ret; }}"
        );
        let mut line = vec!["-arch=sm_90"];
        line.extend(options.split_whitespace());
        line.push("-");
        let (code, _, said) = orias_in(folder.path(), &line, module.as_bytes());
        assert_eq!(code, 0, "{said}");
        let lines = said
            .lines()
            .filter(|it| it.contains("ignored") || it.contains("Overriding"));
        lines
            .map(|it| it[16..].to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let threads = "Value of threads per SM for entry k is out of range. .minnctapersm";
    let blocks = "Value of minnctapersm for entry k is out of range. minnctapersm will be ignored";
    assert_eq!(said("", "-maxntid=2048"), "");
    assert_eq!(
        said("", "-maxntid=128,128"),
        format!("{threads} and .maxntid will be ignored")
    );
    assert_eq!(
        said(".maxntid 64, 64", ""),
        format!("{threads} and .maxntid will be ignored")
    );
    assert_eq!(said(".maxntid 256", "-minnctapersm=8"), "");
    assert_eq!(
        said(".maxntid 256", "-minnctapersm=9"),
        format!("{threads} will be ignored")
    );
    assert_eq!(said(".maxntid 256", "-minnctapersm=33"), blocks);
    assert_eq!(said(".maxntid 256", "-minnctapersm=-1"), blocks);
    assert_eq!(said("", "-minnctapersm=33"), "");
    assert_eq!(
        said(".maxntid 256 .minnctapersm 4", "-v -maxrregcount=32"),
        "Overriding global maxrregcount 32 with entry-specific value 64 computed using thread count"
    );
    assert_eq!(
        said(".maxnreg 40", "-v -maxrregcount=32"),
        "Overriding global maxrregcount 32 with entry-specific value 40 of .maxnreg"
    );
    assert_eq!(
        said("", "-v -maxrregcount=32"),
        "Overriding maximum register limit 256 for 'k' with  32 of maxrregcount option"
    );
}

#[test]
fn local_register_counts_bind_the_code_they_stand_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let loads: String = (0..60)
        .map(|n| format!("ld.global.f32 f{n}, [d1+{}];", 4 * n))
        .collect();
    let sums: String = (0..60)
        .map(|n| format!("fma.rn.f32 f90, f{n}, f{}, f90;", n * 7 % 60))
        .collect();
    let body = format!(
        ".reg .f32 f<100>; .reg .b64 d<3>; ld.param.u64 d1, [p]; {loads} bar.sync 0; mov.f32 f90, 0f00000000; {sums} st.global.f32 [d1], f90; ret;"
    );
    // The most registers of a text, its kernels' MAXREG_COUNT, and what is said.
    let compiled = |count: u32, options: &str| {
        let module = format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.visible .func f(.param .u64 p) .local_maxnreg {count} {{ {body} }}
             .visible .entry k(.param .u64 p) .local_maxnreg {count} {{ {body} }}"
        );
        let mut line = vec!["-arch=sm_90", "-o", "m.cubin"];
        line.extend(options.split_whitespace());
        line.push("-");
        let (code, _, said) = orias_in(folder.path(), &line, module.as_bytes());
        assert_eq!(code, 0, "{said}");
        let shown = orias_in(folder.path(), &["elf", "m.cubin"], b"").1;
        let registers = |what: &str| -> Option<u32> {
            let line = shown.lines().find(|line| line.starts_with(what))?;
            let words: Vec<&str> = line.split([' ', ',']).collect();
            let at = words.iter().position(|it| *it == "registers")?;
            words[at - 1].parse().ok()
        };
        assert!(
            !shown.contains("MAXREG_COUNT                       0x28"),
            "{shown}"
        );
        (registers("kernel k"), registers("function f"), said)
    };
    let few = |registers: Option<u32>| registers.is_some_and(|it| it <= 40);
    let (kernel, function, said) = compiled(40, "-c");
    assert!(few(kernel) && few(function), "{kernel:?} {function:?}");
    assert_eq!(said, "");
    let (kernel, function, said) = compiled(40, "");
    assert!(few(kernel) && function.is_none(), "{kernel:?} {function:?}");
    assert!(said.contains("ignoring construct"), "{said}");
    let (kernel, function, said) = compiled(300, "-c");
    assert!(!few(kernel) && !few(function), "{kernel:?} {function:?}");
    assert_eq!(
        said.matches("Too many local_maxnreg specified for entry")
            .count(),
        2
    );
    let (.., said) = compiled(8, "-c -maxrregcount=64");
    assert_eq!(
        said.matches("adjusting per thread register count of 8 to lower bound of 24")
            .count(),
        2
    );
}

#[test]
fn check_explains_and_its_exit_code_tells() {
    let folder = workshop();
    let in_folder = |arguments: &[&str]| orias_in(folder.path(), arguments, b"");
    assert_eq!(
        in_folder(&["check", "good.ptx"]),
        (0, String::new(), String::new())
    );
    let (code, output, messages) = in_folder(&["check", "bad.ptx", "good.ptx", "none.ptx"]);
    assert_eq!((code, output.as_str()), (1, ""));
    assert!(messages.contains("bad.ptx:4:23"), "{messages}");
    assert!(messages.contains("none.ptx: "), "{messages}");
    let (code, output, messages) = in_folder(&["check", "--json", "bad.ptx"]);
    assert_eq!((code, messages.as_str()), (1, ""));
    assert!(
        output.starts_with("{\"file\":\"bad.ptx\",\"line\":4,"),
        "{output}"
    );
    let (code, output, _) = in_folder(&["check", "--print", "good.ptx"]);
    assert_eq!(code, 0);
    assert!(output.contains(".entry k"), "{output}");
    assert_eq!(in_folder(&["check", "--arch", "sm_1", "good.ptx"]).0, 2);
    assert_eq!(in_folder(&["check"]).0, 2);
}

#[test]
fn opt_runs_the_pipeline_on_ori_text() {
    let folder = workshop();
    let in_folder = |arguments: &[&str]| orias_in(folder.path(), arguments, b"");
    let result = "func f abstract sm_90a -> r {\nblock0(v0:r):\n    ret v0\n}\n";
    let (code, output, messages) = in_folder(&["opt", "f.ori", "--verify-each", "--stop-after=29"]);
    assert_eq!((code, output.as_str(), messages.as_str()), (0, result, ""));
    for unchanged in [
        &["opt", "f.ori", "-O0", "--stop-after=29"][..],
        &[
            "opt",
            "f.ori",
            "--disable-phase",
            "generaloptimize",
            "--stop-after=29",
        ],
        &["opt", "f.ori", "--start-from=107"],
        &[
            "opt",
            "f.ori",
            "--knob=GeneralOptimizeKeep=WHEN=op:mov",
            "--stop-after=29",
        ],
        &["opt", "f.ori", "--knob-file=knobs", "--stop-after=29"],
    ] {
        let (code, output, _) = in_folder(unchanged);
        assert_eq!(code, 0);
        assert!(output.contains("mov.b32"), "{unchanged:?}: {output}");
    }
    let (_, output, messages) = in_folder(&[
        "opt",
        "f.ori",
        "--print-before=29",
        "--print-after=all",
        "--stop-after=29",
        "--time-phases",
    ]);
    assert!(
        output.contains("; before GeneralOptimize (29)\nfunc f"),
        "{output}"
    );
    assert!(
        output.contains("; after GeneralOptimize (29)\nfunc f"),
        "{output}"
    );
    assert!(messages.contains("GeneralOptimize"), "{messages}");
    let (code, output, _) = in_folder(&["opt", "f.ori", "-o", "out.ori", "--stop-after=29"]);
    assert_eq!((code, output.as_str()), (0, ""));
    let written = std::fs::read_to_string(folder.path().join("out.ori")).expect("a file");
    assert_eq!(written, result);
}

#[test]
fn opt_tells_bad_input_from_bad_usage() {
    let folder = workshop();
    for (arguments, code, message) in [
        (&["opt", "none.ori"][..], 1, "none.ori: "),
        (&["opt", "malformed.ori"], 1, "malformed.ori:3:5: "),
        (&["opt", "broken.ori", "--verify-each"], 1, "f, block0"),
        (&["opt", "broken.ori", "-O0"], 1, "f, block0"),
        (&["opt", "broken_edge.ori", "-O3"], 1, "(EdgeArgs)"),
        (
            &["opt", "f.ori", "--start-from=112", "--stop-after=29"],
            2,
            "comes after",
        ),
        (
            &["opt", "f.ori", "--print-after=Generaloptimise"],
            2,
            "did you mean 'GeneralOptimize'?",
        ),
        (
            &["opt", "f.ori", "--knob", "Keep"],
            2,
            "a knob is set by NAME=VALUE",
        ),
        (
            &["opt", "f.ori", "--knob-file", "f.ori"],
            2,
            "f.ori, line 1: ",
        ),
        (&["opt", "f.ori", "-O4"], 2, "4"),
        (&["opt"], 2, "Usage"),
    ] {
        let (found, _, messages) = orias_in(folder.path(), arguments, b"");
        assert_eq!(found, code, "{arguments:?}: {messages}");
        assert!(messages.contains(message), "{arguments:?}: {messages}");
    }
}

#[test]
fn every_subcommand_is_in_the_book() {
    let (_, output, _) = orias(&["help"]);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-line.md");
    let page = std::fs::read_to_string(page).expect("the page exists");
    let listed: Vec<&str> = output
        .lines()
        .skip_while(|line| !line.starts_with("Subcommands"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(listed.contains(&"check"), "{listed:?}");
    for name in listed {
        assert!(
            page.contains(&format!("| `{name}` |")),
            "docs/command-line.md does not list {name}"
        );
    }
}

#[test]
fn manual_pages_and_completions_are_made_for_everything() {
    let (code, page, _) = orias(&["manual"]);
    assert_eq!(code, 0);
    assert!(page.starts_with(".TH ORIAS 1"), "{page}");
    assert!(page.contains("ORIAS_FALLBACK"), "{page}");
    let (code, page, _) = orias(&["manual", "verify"]);
    assert_eq!(code, 0);
    assert!(page.contains("\\-\\-explain"), "{page}");
    let (code, _, messages) = orias(&["manual", "verifi"]);
    assert_eq!(code, 2);
    assert!(messages.contains("did you mean 'verify'?"), "{messages}");
    for shell in ["bash", "zsh", "fish"] {
        let (code, text, _) = orias(&["completions", shell]);
        assert_eq!(code, 0);
        for part in ["reschedule", "shuffle", "maxrregcount"] {
            assert!(text.contains(part), "{shell}: {part}");
        }
    }
    assert_eq!(orias(&["completions", "csh"]).0, 2);
}

/// What bash itself makes of the completions, where there is one.
#[test]
fn bash_completes_options_subcommands_and_values() {
    let (_, script, _) = orias(&["completions", "bash"]);
    let complete = |words: &[&str]| {
        let last = words.len() - 1;
        let text = format!(
            "{script}\nCOMP_WORDS=({}) COMP_CWORD={last}\ncompopt() {{ :; }}\n_orias\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words
                .iter()
                .map(|word| format!("'{word}'"))
                .collect::<Vec<_>>()
                .join(" ")
        );
        let done = Command::new("bash").args(["-c", &text]).output().ok()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        Some(String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let Some(names) = complete(&["orias", "resch"]) else {
        eprintln!("skipped: there is no bash");
        return;
    };
    assert_eq!(names.trim(), "reschedule");
    let has = |words: &[&str], wanted: &str| {
        let found = complete(words).unwrap_or_default();
        assert!(
            found.lines().any(|line| line == wanted),
            "{words:?}: {found}"
        );
    };
    has(&["orias", "reschedule", "--sh"], "--shuffle");
    has(&["orias", "--gpu"], "--gpu-name=");
    has(&["orias", "--fmad", "=", "f"], "false");
}

/// A module of one kernel.
const STORE: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) { .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], 7; ret; }\n";

#[test]
fn statistics_are_said_or_added_to_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let compile = |more: &[&str]| {
        let mut arguments = vec!["-arch=sm_90a", "-", "-o", "k.cubin"];
        arguments.extend(more);
        orias_in(folder.path(), &arguments, STORE.as_bytes())
    };
    let (code, _, said) = compile(&["--compiler-stats", "t"]);
    assert_eq!(code, 0, "{said}");
    let time = said.strip_prefix("ptxas info    : STAT: CompileTime = ");
    let time = time.and_then(|it| it.strip_suffix(" ms\n")).expect(&said);
    assert!(time.parse::<f64>().is_ok_and(|it| it > 0.0), "{said}");
    let both = ["--compiler-stats", "time,phase-wise", "--compiler-stats=m"];
    let (_, _, said) = compile(&both);
    for part in [
        " ms (100%)\nParse-time            : ",
        "\nOCG-time              : ",
    ] {
        assert!(said.contains(part), "{said}");
    }
    if cfg!(target_os = "linux") {
        let part = "\nptxas info    : STAT: PeakMemoryUsage = ";
        assert!(said.contains(part), "{said}");
    }
    for round in 1..=2 {
        let (code, _, said) = compile(&["--compiler-stats=time", "--compiler-stats-file=stats"]);
        assert_eq!((code, said.as_str()), (0, ""));
        let file = std::fs::read_to_string(folder.path().join("stats")).expect("written");
        assert_eq!(file.matches("<stdin> >>\n\nCompileTime = ").count(), round);
    }
    let (code, _, said) = compile(&["--compiler-stats=time", "--compiler-stats-file=no/where"]);
    assert_eq!(code, 255);
    assert!(said.contains("'no/where' could not be opened"), "{said}");
    let (_, _, said) = compile(&["--compiler-stats-file=other"]);
    assert!(
        said.contains("requires option '--compiler-stats'"),
        "{said}"
    );
    for (arguments, what) in [
        (
            ["--compiler-stats=all"],
            "Value 'all' is not defined for option 'compiler-stats'",
        ),
        (["-compiler-stats=time"], "Unknown option 'compiler-stats'"),
    ] {
        let (code, _, said) = compile(&arguments);
        assert_eq!(code, 255);
        assert!(said.contains(what), "{said}");
    }
}
