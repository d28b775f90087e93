//! What a compilation leaves behind: the same bytes whatever the number of threads, what options ask for, line tables, the report of
//! `-v`, and nothing at all where the input is bad.

use orias::{Kind, Options, Source, Target, compile};
use orias_cubin::Cubin;
use std::path::Path;
use std::process::Command;

fn options() -> Options {
    Options {
        target: Target::parse("sm_90a").expect("a target"),
        ..Options::default()
    }
}

fn cubin(text: &str, options: &Options) -> Vec<u8> {
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    match compile(&source, options) {
        Ok(compiled) => compiled.cubin.expect("a cubin"),
        Err(diagnostics) => panic!("{:?}", diagnostics.0),
    }
}

fn messages(text: &str, options: &Options) -> Vec<String> {
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    let diagnostics = match compile(&source, options) {
        Ok(compiled) => compiled.diagnostics,
        Err(diagnostics) => diagnostics,
    };
    diagnostics.iter().map(ToString::to_string).collect()
}

const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

/// Kernels that keep `values` values alive over a barrier.
fn kernels(count: usize, values: usize) -> String {
    let mut text = HEAD.to_owned();
    for number in 0..count {
        text += &format!(
            ".visible .entry k{number}(.param .u64 p) {{\n.reg .b64 %rd<2>;\n.reg .b32 %r<{values}>;\nld.param.u64 %rd1, [p];\n"
        );
        for value in 0..values {
            text += &format!("ld.global.u32 %r{value}, [%rd1+{}];\n", 4 * value);
        }
        text += "bar.sync 0;\n";
        for value in 0..values {
            let other = (value * 7 + number) % values;
            text += &format!("mul.lo.u32 %r{value}, %r{value}, %r{other};\n");
        }
        text += "bar.sync 0;\n";
        for value in 0..values {
            text += &format!(
                "st.global.u32 [%rd1+{}], %r{value};\n",
                4 * ((value * 13) % values)
            );
        }
        text += "ret;\n}\n";
    }
    text
}

#[test]
fn the_same_bytes_come_out_twice_and_for_any_number_of_threads() {
    let text = kernels(9, 24);
    for level in [0, 1, 3] {
        let with = |threads| Options {
            threads,
            opt_level: level,
            ..options()
        };
        let first = cubin(&text, &with(Some(1)));
        for threads in [Some(1), Some(2), Some(3), Some(16), None] {
            assert!(
                cubin(&text, &with(threads)) == first,
                "-O{level}, {threads:?} threads"
            );
        }
    }
}

#[test]
fn the_encoding_cache_changes_nothing() {
    let text = kernels(2, 24);
    let mut without = options();
    without
        .knobs
        .set("MercEncodingCache=false")
        .expect("a knob");
    assert!(cubin(&text, &options()) == cubin(&text, &without));
}

#[test]
fn spills_and_local_memory_are_warned_about_when_asked() {
    let text = kernels(1, 60);
    let asked = Options {
        max_registers: Some(24),
        warn_on_spills: true,
        warn_on_local_memory: true,
        ..options()
    };
    let said = messages(&text, &asked);
    let spills = "ptxas warning : Registers are spilled to local memory in function 'k0', ";
    assert!(said.iter().any(|line| line.starts_with(spills)), "{said:?}");
    let local = "ptxas warning : Local memory used for function 'k0', size of stack frame: ";
    assert!(said.iter().any(|line| line.starts_with(local)), "{said:?}");
    let roomy = Options {
        max_registers: None,
        ..asked.clone()
    };
    assert_eq!(messages(&text, &roomy), [""; 0]);
    let strict = Options {
        warnings_are_errors: true,
        ..asked
    };
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    assert!(compile(&source, &strict).is_err());
}

#[test]
fn double_precision_is_warned_about_by_line() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p) {{\n.reg .b64 %rd<2>;\n.reg .f64 %fd<3>;\nld.param.u64 %rd1, [p];\nld.global.f64 %fd1, [%rd1];\nadd.f64 %fd2, %fd1, %fd1;\nst.global.f64 [%rd1], %fd2;\nret;\n}}\n"
    );
    let asked = Options {
        warn_on_double: true,
        ..options()
    };
    let wanted: Vec<String> = [8, 9, 10]
        .iter()
        .map(|line| {
            format!(
                "ptxas m.ptx, line {line}; warning : Program is doing double precision computations."
            )
        })
        .collect();
    assert_eq!(messages(&text, &asked), wanted);
    assert_eq!(messages(&text, &options()), [""; 0]);
}

/// A block of 1024 threads may have 64 registers each; a limit that overrides directives lets it have more (ptxas: 81 of 128 for a kernel of the corpus).
#[test]
fn a_limit_of_registers_that_overrides_directives_counts_whatever_the_number_of_threads() {
    let many = 90;
    let mut body = format!(
        ".reg .b64 %rd<3>;\n.reg .b32 %r<{}>;\nld.param.u64 %rd1, [p];\nmov.u32 %r0, 0;\n",
        many + 1
    );
    for index in 1..=many {
        body += &format!("ld.volatile.global.u32 %r{index}, [%rd1+{}];\n", 4 * index);
    }
    for index in (1..=many).chain((1..=many).rev()) {
        body += &format!("xor.b32 %r0, %r0, %r{index};\nmul.lo.s32 %r0, %r0, 5;\n");
    }
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p) .maxntid 1024, 1, 1 {{\n{body}st.global.u32 [%rd1], %r0;\nret;\n}}\n"
    );
    let registers = |override_directives| {
        let asked = Options {
            verbose: true,
            max_registers: Some(128),
            override_directives,
            ..options()
        };
        let said = messages(&text, &asked);
        let used = said.iter().find_map(|line| line.split_once(" : Used "));
        let used = used.and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok());
        used.expect("the report says how many")
    };
    assert!(registers(false) <= 64, "{}", registers(false));
    assert!((90..=128).contains(&registers(true)), "{}", registers(true));
}

#[test]
fn the_report_is_in_the_words_and_the_order_of_ptxas() {
    let verbose = Options {
        verbose: true,
        max_registers: Some(32),
        ..options()
    };
    let text = kernels(2, 8) + ".global .align 4 .b8 g[20];\n";
    let said = messages(&text, &verbose);
    let wanted = [
        "ptxas info    : Overriding maximum register limit 256 for 'k1' with  32 of maxrregcount option",
        "ptxas info    : Overriding maximum register limit 256 for 'k0' with  32 of maxrregcount option",
        "ptxas info    : 20 bytes gmem",
        "ptxas info    : Compiling entry function 'k1' for 'sm_90a'",
        "ptxas info    : Function properties for k1\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
    ];
    assert_eq!(said[..wanted.len()], wanted);
    assert!(
        said[5].starts_with("ptxas info    : Used ")
            && said[5].ends_with(" registers, used 1 barriers")
    );
    assert!(said[6].starts_with("ptxas info    : Compile time = "));
    assert_eq!(
        said[7],
        "ptxas info    : Compiling entry function 'k0' for 'sm_90a'"
    );
}

/// A function that becomes part of its kernel is in the report, too; an object's kernel counts the shared memory that it declares itself.
#[test]
fn the_report_names_inlined_functions_and_counts_shared_memory() {
    let text = ".version 8.0\n.target sm_90a\n.address_size 64\n.shared .b8 outside[1024];\n\
        .func (.param .u32 r) inner(.param .u32 a) {\n\
          .reg .u32 %r; ld.param.u32 %r, [a]; add.u32 %r, %r, 9; st.param.u32 [r], %r; ret; }\n\
        .func unused() { ret; }\n\
        .visible .entry k(.param .u64 out) {\n\
          .reg .u64 %out; .reg .u32 %r; .shared .b8 inside[256];\n\
          ld.param.u64 %out, [out]; ld.global.u32 %r, [%out];\n\
          st.shared.u8 [outside], %r; st.shared.u8 [inside], %r;\n\
          { .param .u32 p; .param .u32 q; st.param.u32 [p], %r; call (q), inner, (p); ld.param.u32 %r, [q]; }\n\
          st.global.u32 [%out], %r; ret; }\n";
    let said = |relocatable| {
        let verbose = Options {
            verbose: true,
            relocatable,
            ..options()
        };
        messages(text, &verbose)
    };
    let whole = said(false);
    let properties = |name: &str| {
        format!(
            "ptxas info    : Function properties for {name}\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
        )
    };
    assert_eq!(whole.last(), Some(&properties("inner")));
    assert!(!whole.contains(&properties("unused")));
    let ends = |lines: &[String], end: &str| lines.iter().any(|line| line.ends_with(end));
    assert!(ends(&whole, ", 1280 bytes smem"), "{whole:?}");
    let object = said(true);
    assert!(ends(&object, ", 256 bytes smem"), "{object:?}");
}

/// The disassembly of all code.
fn code(bytes: &[u8]) -> String {
    let cubin = Cubin::read(bytes).expect("a cubin");
    orias::disassemble(
        &cubin,
        orias_sass::Target::Sm90a,
        orias_sass::text::ListingStyle::default(),
    )
}

#[test]
fn products_of_warp_groups_keep_off_the_registers_of_tools() {
    // Few values: there is a tighter packing, which tools that call functions between instructions would break.
    let text = include_str!("../../../tests/run/warpgroup.ptx");
    let listing = code(&cubin(text, &options()));
    let mut products = listing.lines().filter(|line| line.contains("HGMMA"));
    let product = products.next().expect("a product");
    assert!(product.contains(" R24, "), "{product}");
}

#[test]
fn cache_operators_of_the_command_line_reach_the_code() {
    use orias_codegen::lower::{CacheChoice, Caches};
    use orias_ori::operation::Cache;
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p) {{\n.reg .b64 %rd<2>;\n.reg .b32 %r<3>;\nld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\nld.global.cs.u32 %r2, [%rd1+4];\nadd.u32 %r1, %r1, %r2;\nst.global.u32 [%rd1], %r1;\nret;\n}}\n"
    );
    let with = |cache, forced| {
        let caches = Caches {
            load: Some(CacheChoice { cache, forced }),
            store: None,
        };
        code(&cubin(
            &text,
            &Options {
                caches,
                ..options()
            },
        ))
    };
    let plain = code(&cubin(&text, &options()));
    assert_eq!(plain.matches("LDG.E.EF").count(), 1, "{plain}");
    assert_eq!(plain.matches("LDG.E.STRONG.GPU").count(), 0, "{plain}");
    let default = with(Cache::Cg, false);
    assert_eq!(default.matches("LDG.E.EF").count(), 1, "{default}");
    assert_eq!(default.matches("LDG.E.STRONG.GPU").count(), 1, "{default}");
    let forced = with(Cache::Cg, true);
    assert_eq!(forced.matches("LDG.E.STRONG.GPU").count(), 2, "{forced}");
}

/// A kernel with source lines.
const LINES: &str = "\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {
.reg .b64 %rd<2>;
.reg .b32 %r<3>;
.loc 1 3 0
ld.param.u64 %rd1, [p];
.loc 1 4 5
ld.global.u32 %r1, [%rd1];
.loc 1 10 1, function_name $name, inlined_at 1 4 5
add.u32 %r2, %r1, 1;
.loc 1 5 1
st.global.u32 [%rd1], %r2;
ret;
}
.file 1 \"/source/a.cu\"
.section .debug_str
{
$name:
.b8 102, 0
}
";

fn sections(bytes: &[u8]) -> Vec<String> {
    let cubin = Cubin::read(bytes).expect("a cubin");
    let names = cubin.sections.iter();
    names
        .map(|section| section.name.text.clone())
        .filter(|name| name.contains("debug") && !name.contains("frame"))
        .collect()
}

#[test]
fn line_tables_are_made_for_code_that_names_lines_and_on_demand() {
    let of_source = [
        ".debug_line",
        ".debug_str",
        ".nv_debug_line_sass",
        ".nv_debug_ptx_txt",
        ".rela.debug_line",
        ".rela.nv_debug_line_sass",
    ];
    assert_eq!(sections(&cubin(LINES, &options())), of_source);
    let suppressed = Options {
        no_debug_info: true,
        ..options()
    };
    assert_eq!(sections(&cubin(LINES, &suppressed)), [""; 0]);
    let plain = kernels(1, 4);
    assert_eq!(sections(&cubin(&plain, &options())), [""; 0]);
    let asked = Options {
        line_info: true,
        ..options()
    };
    let of_ptx = [
        ".debug_line",
        ".nv_debug_line_sass",
        ".nv_debug_ptx_txt",
        ".rela.nv_debug_line_sass",
    ];
    assert_eq!(sections(&cubin(&plain, &asked)), of_ptx);
}

#[test]
fn an_inlined_line_leads_to_its_call() {
    let bytes = cubin(LINES, &options());
    let read = Cubin::read(&bytes).expect("a cubin");
    let table = read.section(".debug_line").expect("a table");
    let orias_cubin::Body::Bytes(table) = &table.body else {
        panic!("bytes");
    };
    // NVIDIA's opcode: the row of the call, and the offset of the name.
    let inlined = table.windows(3).position(|window| window == [0, 3, 0x90]);
    assert!(inlined.is_some(), "{table:x?}");
    let code_is_the_same = Options {
        no_debug_info: true,
        ..options()
    };
    assert_eq!(code(&bytes), code(&cubin(LINES, &code_is_the_same)));
}

fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_orias"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the command runs");
    (
        output.status.code().expect("an exit code"),
        String::from_utf8(output.stderr).expect("text"),
    )
}

#[test]
fn bad_and_unsupported_modules_leave_a_message_a_code_and_no_file() {
    let cases = [
        // Text that is no PTX, a type error, a name that is not declared, an instruction the target lacks.
        ("garbage", "\u{1}nonsense".to_owned(), "error"),
        ("empty", String::new(), "Missing .version directive"),
        (
            "types",
            format!(
                "{HEAD}.visible .entry k() {{ .reg .b64 %rd<2>; .reg .f32 %f<2>; add.f32 %f1, %rd1, %f1; ret; }}"
            ),
            "Arguments mismatch",
        ),
        (
            "names",
            format!("{HEAD}.visible .entry k() {{ .reg .b32 %r<2>; mov.u32 %r1, nothing; ret; }}"),
            "nothing",
        ),
        (
            "unsupported",
            format!(
                "{HEAD}.visible .entry k() {{ .reg .b32 %r; .local .b8 huge[2147483648]; ld.local.b32 %r, [huge]; st.local.b32 [huge], %r; ret; }}"
            ),
            "not supported yet",
        ),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("old.cubin"), b"older").expect("written");
    for (name, text, wanted) in cases {
        let file = format!("{name}.ptx");
        std::fs::write(folder.path().join(&file), text).expect("written");
        let (code, said) = run(folder.path(), &["-arch=sm_90a", &file, "-o", "new.cubin"]);
        assert_eq!(code, 255, "{name}: {said}");
        assert!(said.contains(wanted), "{name}: {said}");
        assert!(
            said.contains("Ptx assembly aborted due to errors"),
            "{name}: {said}"
        );
        assert!(!folder.path().join("new.cubin").exists(), "{name}");
        let (code, _) = run(folder.path(), &["-arch=sm_90a", &file, "-o", "old.cubin"]);
        assert_eq!(code, 255, "{name}");
        let kept = std::fs::read(folder.path().join("old.cubin")).expect("it is there");
        assert_eq!(kept, b"older", "{name}");
    }
}

#[test]
fn code_for_debuggers_is_not_optimised() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("m.ptx"), kernels(1, 2)).expect("written");
    let arguments = ["-arch=sm_90a", "-g", "-O3", "m.ptx", "-o", "m.cubin"];
    let (code, said) = run(folder.path(), &arguments);
    assert_eq!(code, 255);
    assert!(said.contains("Optimized debugging not supported"), "{said}");
    assert!(!folder.path().join("m.cubin").exists());
    let arguments = ["-arch=sm_90a", "-g", "-w", "m.ptx", "-o", "m.cubin"];
    let (code, said) = run(folder.path(), &arguments);
    assert_eq!((code, said.as_str()), (0, ""));
    assert!(folder.path().join("m.cubin").exists());
}

#[test]
fn what_is_unsupported_in_a_kernel_is_said_with_its_kind() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p) {{ .reg .b64 %rd<2>; mbarrier.init.shared.b64 [0], 1; ret; }}"
    );
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    let diagnostics = compile(&source, &options()).expect_err("not compiled");
    let unsupported = |kind: &Kind| matches!(kind, Kind::Unsupported { .. } | Kind::Input);
    assert!(diagnostics.iter().all(|one| unsupported(&one.kind)));
}

/// A kernel of at most `most` registers that loads `count` words, all addresses computed and all words loaded before the first is used.
fn loads_first(count: usize, most: u32) -> String {
    let mut text = format!(
        "{HEAD}.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 stride) .maxnreg {most} {{\n.reg .b64 %rd<{}>;\n.reg .b32 %r<{}>;\n",
        count + 3,
        2 * count + 2
    );
    text += "ld.param.u64 %rd0, [p];\nld.param.u64 %rd1, [q];\nld.param.u32 %r0, [stride];\nmul.wide.u32 %rd2, %r0, 4;\n";
    for number in 0..count {
        let from = if number == 0 { 0 } else { number + 2 };
        text += &format!("add.s64 %rd{}, %rd{from}, %rd2;\n", number + 3);
    }
    for number in 0..count {
        text += &format!("ld.global.nc.u32 %r{}, [%rd{}];\n", number + 1, number + 3);
    }
    text += &format!("mov.u32 %r{}, 7;\n", count + 1);
    for number in 0..count - 1 {
        let sum = count + 1 + number;
        text += &format!(
            "mad.lo.u32 %r{}, %r{sum}, %r{}, {number};\n",
            sum + 1,
            number + 1
        );
    }
    text + &format!("st.global.u32 [%rd1], %r{};\nret;\n}}\n", 2 * count)
}

#[test]
fn loads_that_come_early_are_not_spilled_if_they_can_come_late() {
    let options = Options {
        verbose: true,
        ..options()
    };
    let report = messages(&loads_first(60, 32), &options).join("\n");
    let none = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
    assert!(report.contains(none), "{report}");
}

/// A kernel with a statement between its loads and its store.
fn kernel_with(statement: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.shared .align 128 .b8 s[2048];\n\
         .visible .entry k(.param .u64 a) {{\n.reg .b32 r<8>; .reg .b64 d<2>; .reg .b16 h;\n\
         ld.param.u64 d0, [a];\nld.global.v4.u32 {{r0, r1, r2, r3}}, [d0];\nmov.u32 r5, s;\n{statement}\nst.global.u32 [d0+16], r4;\nret;\n}}\n"
    )
}

#[test]
fn the_class_of_a_module_is_that_of_its_rarest_instruction() {
    let class = |statement: &str| {
        let image = cubin(&kernel_with(statement), &options());
        let cubin = Cubin::read(&image).expect("readable");
        let module = orias_cubin::build::CubinContents::extract(&cubin, orias::chip_named);
        module.expect("a module").isa_class
    };
    assert_eq!(class("add.u32 r4, r0, r1;"), 1);
    let mma = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {r4, r6}, {r0}, {r1}, {r2, r3};";
    assert_eq!(class(mma), 4);
    let load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r5], [d0], 128, [r5+1024]; mov.u32 r4, 0;";
    assert_eq!(class(load), 2);
    let store = "cp.async.bulk.global.shared::cta.bulk_group [d0], [r5], 128; mov.u32 r4, 0;";
    assert_eq!(class(store), 1);
    let narrow = "cvt.u16.u32 h, r0; cvt.rn.f16x2.e4m3x2 r4, h;";
    assert_eq!(class(narrow), 2);
}

/// What tools patch in at an access counts on the stack pointer by then.
#[test]
fn kernels_read_the_stack_pointer_before_memory() {
    let text = kernel_with("add.u32 r4, r0, r1;");
    for opt_level in 0..=3 {
        let options = Options {
            opt_level,
            ..options()
        };
        let code = code(&cubin(&text, &options));
        let at = |what: &str| code.find(what).unwrap_or_else(|| panic!("{what}: {code}"));
        assert!(at("LDC R1, c[0x0][0x28]") < at("LDG"), "{code}");
    }
}

/// An array in shared memory that another module should have is this one's; an open one is the launch's.
#[test]
fn an_extern_of_shared_memory_with_a_size_is_warned_of() {
    let text = ".version 8.0\n.target sm_90a\n.address_size 64\n\
        .extern .shared .align 16 .b8 sized[64];\n.extern .shared .b8 open[];\n\
        .visible .entry k() { st.shared.u8 [sized], 1; st.shared.u8 [open], 1; ret; }\n";
    let said = messages(text, &options());
    let [warning] = &said[..] else {
        panic!("one warning: {said:?}");
    };
    let wanted = "Unresolved extern variable 'sized' in whole program compilation, ignoring extern qualifier";
    assert!(warning.contains(wanted), "{warning}");
}
