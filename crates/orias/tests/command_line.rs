//! The command line means what it means to ptxas 13.0.88. Each expectation here was read off ptxas itself.

use orias::Diagnostics;
use orias::command_line::{Action, Input, Invocation, OPTIONS, Status, Takes, parse};

/// Reads `line`, split at white space, with no options file in the world but those in `files`.
fn read_with(files: &[(&str, &str)], line: &str) -> Result<Invocation, Diagnostics> {
    parse(line.split_whitespace().map(String::from), &mut |name| {
        files
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, text)| text.as_bytes().to_vec())
    })
}

fn read(line: &str) -> Invocation {
    read_with(&[], line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn refusal(line: &str) -> String {
    match read_with(&[], line) {
        Ok(invocation) => panic!("{line}: {invocation:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_gpu_can_be_named_in_every_spelling_ptxas_has() {
    for line in [
        "-arch=sm_90a a.ptx",
        "-arch sm_90a a.ptx",
        "--gpu-name=sm_90a a.ptx",
        "--gpu-name sm_90a a.ptx",
        "a.ptx -arch sm_90a",
    ] {
        assert_eq!(read(line).options.target.to_string(), "sm_90a", "{line}");
    }
    assert_eq!(read("a.ptx").options.target.to_string(), "sm_75");
}

#[test]
fn levels_are_attached_or_follow_the_long_name() {
    for (line, level) in [
        ("a.ptx", 3),
        ("-O0 a.ptx", 0),
        ("-O1 a.ptx", 1),
        ("-O=2 a.ptx", 2),
        ("-O4 a.ptx", 3),
        ("-O0x2 a.ptx", 2),
        ("-O a.ptx", 0),
        ("--opt-level=1 a.ptx", 1),
        ("--opt-level 1 a.ptx", 1),
        ("--opt-level= a.ptx", 0),
        ("--opt-level=-1 a.ptx", 0),
    ] {
        assert_eq!(read(line).options.opt_level, level, "{line}");
    }
    let separate = read("-O 2 a.ptx");
    assert_eq!(
        separate.inputs,
        [Input::File("2".into()), Input::File("a.ptx".into())],
        "to ptxas, what follows a lone -O is a file"
    );
}

#[test]
fn what_is_wrong_is_said_in_the_words_of_ptxas() {
    for (line, message) in [
        ("-gpu-name=sm_90a a.ptx", "Unknown option 'gpu-name'"),
        ("--arch=sm_90a a.ptx", "Unknown option '-arch'"),
        ("--foo=3 a.ptx", "Unknown option '-foo'"),
        ("-foo a.ptx", "Unknown option 'foo'"),
        ("-ox.out a.ptx", "Unknown option 'ox.out'"),
        ("-ek a.ptx", "Unknown option 'ek'"),
        ("-vv a.ptx", "Unknown option 'vv'"),
        ("-- a.ptx", "Unknown option '-'"),
        ("-=3 a.ptx", "Unknown option ''"),
        ("--generate a.ptx", "Unknown option '-generate'"),
        (
            "-arch=sm_91 a.ptx",
            "Value 'sm_91' is not defined for option 'gpu-name'",
        ),
        (
            "-arch= a.ptx",
            "Value '' is not defined for option 'gpu-name'",
        ),
        (
            "-O3 -Ofc min a.ptx",
            "Conflicting options -opt-level=<0,2,3> and --Ofast-compile=min specified",
        ),
        (
            "-Ofc max --opt-level 1 a.ptx",
            "Conflicting options -opt-level=<1,2,3> and --Ofast-compile=max specified",
        ),
        (
            "-c -func-maxrregcount=x a.ptx",
            "Invalid value 'x' for option 'device-function-maxrregcount'",
        ),
        (
            "-arch=lto_90a a.ptx",
            "Unsupported gpu architecture 'lto_90a'",
        ),
        ("-Ox a.ptx", "'x': expected a number"),
        ("-Ofcmax a.ptx", "'fcmax': expected a number"),
        (
            "-maxrregcount32 a.ptx",
            "'axrregcount32': expected a number",
        ),
        (
            "-O99999999999999999999 a.ptx",
            "32-bit integer value (99999999999999999999) out of range",
        ),
        ("--opt-level=2x a.ptx", "'2x': expected a number"),
        ("a.ptx -o", "argument expected after '-o'"),
        ("--opt-level", "argument expected after '--opt-level'"),
        ("-v=true a.ptx", "no argument expected after '-v'"),
        (
            "--verbose=false a.ptx",
            "no argument expected after '--verbose'",
        ),
        ("--fmad a.ptx", "'a.ptx': expected true or false"),
        ("-fmad=1 a.ptx", "'1': expected true or false"),
        (
            "-m32 a.ptx",
            "Value '32' is not defined for option 'machine'",
        ),
        (
            "--machine= a.ptx",
            "Value '' is not defined for option 'machine'",
        ),
        ("--machine=foo a.ptx", "'foo': expected a number"),
        (
            "--maxrregcount=12x a.ptx",
            "Invalid value '12x' for option 'maxrregcount'",
        ),
        (
            "-sanitize=foo a.ptx",
            "Value 'foo' is not defined for option 'sanitize'",
        ),
        (
            "--split-compile=-3 a.ptx",
            "Invalid value '-3' for option '--split-compile'",
        ),
        (
            "-Ofc=foo a.ptx",
            "Invalid value for --Ofast-compile/-Ofc (foo), is not 'max', 'mid', 'min', or '0'",
        ),
        ("-optf nofile a.ptx", "Could not open options file 'nofile'"),
        ("-e a\"b a.ptx", "Stray '\"' character"),
        ("--version=3", "no argument expected after '--version'"),
        ("-V --foo", "Unknown option '-foo'"),
    ] {
        assert_eq!(
            refusal(line),
            format!("ptxas fatal   : {message}"),
            "{line}"
        );
    }
    assert_eq!(
        refusal("-dlcm=zz a.ptx"),
        "ptxas error   : Invalid default cache modifier on load specified: zz"
    );
}

#[test]
fn a_repeated_option_keeps_its_last_value_and_says_so_when_they_differ() {
    let twice = read("-O1 -O2 -o a -o b a.ptx");
    assert_eq!(twice.options.opt_level, 2);
    assert_eq!(twice.output, "b");
    let remarks: Vec<String> = twice.remarks.iter().map(ToString::to_string).collect();
    assert_eq!(
        remarks,
        [
            "ptxas warning : incompatible redefinition for option 'opt-level', the last value of this option was used",
            "ptxas warning : incompatible redefinition for option 'output-file', the last value of this option was used",
        ]
    );
    assert_eq!(read("-O1 --opt-level=0x1 -v -v a.ptx").remarks, []);
}

#[test]
fn lists_are_split_at_commas_and_grow() {
    assert_eq!(
        read("-e a,b --entry c,, a.ptx").options.entries,
        ["a", "b", "c"]
    );
}

#[test]
fn inputs_are_files_standard_input_and_strings_in_the_order_given() {
    let arguments = ["a.ptx", "-ias", ".version 8.0, x", "-", "b,c.ptx"].map(String::from);
    let invocation = parse(arguments, &mut |_| None).expect("a good command line");
    assert_eq!(
        invocation.inputs,
        [
            Input::File("a.ptx".into()),
            Input::Text(".version 8.0, x".into()),
            Input::StandardInput,
            Input::File("b,c.ptx".into()),
        ]
    );
}

#[test]
fn the_next_argument_is_a_value_even_when_it_looks_like_an_option() {
    assert_eq!(read("-o -v a.ptx").output, "-v");
}

#[test]
fn options_about_synchronisation_that_ptxas_takes_without_listing_them() {
    for value in ["true", "false"] {
        let read = read(&format!(
            "-arch=sm_90a --assume-extern-functions-do-not-sync {value} --no-membermask-overlap={value} a.ptx"
        ));
        assert_eq!((read.remarks, read.warnings), (vec![], vec![]));
        let knob = &orias_codegen::knobs::registry::ASSUME_EXTERN_DO_NOT_SYNC;
        assert_eq!(read.options.knobs.bool(knob), value == "true");
    }
    let warned = read("--print-potentially-overlapping-membermasks -arch=sm_90a a.ptx");
    let warnings: Vec<&str> = warned
        .warnings
        .iter()
        .map(|it| it.message.as_str())
        .collect();
    assert_eq!(
        warnings,
        [
            "Command line option '--print-potentially-overlapping-membermasks' not supported for 'sm_90a', will be ignored"
        ]
    );
}

#[test]
fn clients_command_lines_are_understood() {
    // Triton.
    let triton = read(
        "-lineinfo -suppress-debug-info -v --regAllocOptLevel=2 --gpu-name=sm_90a a.ptx -o a.o",
    );
    assert_eq!((triton.remarks, triton.warnings), (vec![], vec![]));
    // nvcc, and nvcc with several threads.
    read("-arch=sm_90a -m64 -maxrregcount=64 --generate-line-info a.ptx -o t.cubin");
    read("-split-compile=0 -arch=sm_90a -m64 -split-compile=0 a.ptx -o t.cubin");
    // XLA.
    read("a.ptx -o a.cubin -arch=sm_90a --warn-on-spills -v");
}

#[test]
fn options_files_nest_and_stop() {
    let files = [
        ("one", "-O1 -optf two -v"),
        ("two", "-arch=sm_90a \"x y.ptx\""),
        ("self", "-optf self"),
        ("dangling", "--opt-level"),
    ];
    let nested = read_with(&files, "--options-file=one z.ptx").expect("good files");
    assert_eq!(nested.options.opt_level, 1);
    assert_eq!(nested.options.target.to_string(), "sm_90a");
    assert_eq!(
        nested.inputs,
        [Input::File("x y.ptx".into()), Input::File("z.ptx".into())]
    );
    let message = |line| read_with(&files, line).expect_err("a refusal").to_string();
    assert_eq!(
        message("-optf self"),
        "ptxas fatal   : Too many options file opened 'self'"
    );
    assert_eq!(
        message("-optf dangling 1"),
        "ptxas fatal   : argument expected after '--opt-level'",
        "a value does not come from outside the file"
    );
}

#[test]
fn options_files_that_double_at_each_level_are_stopped() {
    let lines: Vec<(String, String)> = (0..14)
        .map(|n| (format!("f{n}"), format!("-optf f{0} ", n + 1).repeat(4)))
        .collect();
    let mut opened = 0usize;
    let outcome = parse(["-optf".into(), "f0".into()], &mut |name| {
        opened += 1;
        Some(
            lines
                .iter()
                .find(|(known, _)| known == name)
                .map_or(Vec::new(), |(_, text)| text.clone().into_bytes()),
        )
    });
    assert!(outcome.is_err());
    assert!(opened < 1 << 20);
}

#[test]
fn without_an_input_the_options_are_explained() {
    assert_eq!(read("").action, Action::Help);
    assert_eq!(read("-arch=sm_90a").action, Action::Help);
    assert_eq!(read("-V a.ptx").action, Action::Version);
    assert_eq!(read("-version-ls").action, Action::ListVersions);
    assert_eq!(read("-optf= -arch=sm_90a").action, Action::Help);
}

#[test]
fn an_object_is_made_where_asked_for() {
    assert!(!read("a.ptx").options.relocatable);
    assert!(read("-c a.ptx").options.relocatable);
    let extensible = read("-ewp a.ptx").options;
    assert!(extensible.relocatable && extensible.extensible);
    let both = read("-ewp -c a.ptx");
    assert!(both.options.relocatable && !both.options.extensible);
    assert_eq!(both.warnings.len(), 1);
    let limits = read("--compile-only --device-function-maxrregcount=64 a.ptx").options;
    assert_eq!(limits.function_registers, Some(64));
    assert_eq!(read("-O1 -Ofc mid a.ptx").options.fast_compile, Some(2));
    assert_eq!(read("-O0 -Ofc max a.ptx").options.fast_compile, Some(1));
    let few = read("-c -func-maxrregcount=8 -arch=sm_90a a.ptx");
    assert_eq!(few.options.function_registers, Some(24));
    assert_eq!(
        few.warnings[0].to_string(),
        "ptxas warning : For profile sm_90a adjusting per thread register count of 8 to lower bound of 24"
    );
    let fewest = read("--maxrregcount=archmin a.ptx").options.max_registers;
    assert_eq!(fewest, Some(32));
    // A limit that is ignored is the chip's.
    let many = read("--maxrregcount=300 a.ptx");
    assert_eq!(many.options.max_registers, Some(255));
    assert_eq!(many.warnings.len(), 1);
    let quick = read("-O0 --register-usage-level=3 a.ptx");
    assert_eq!(quick.options.knobs, read("-O0 a.ptx").options.knobs);
    assert_eq!(quick.warnings.len(), 1);
    // Whole programs have no such functions.
    let whole = read("--device-function-maxrregcount=64 a.ptx");
    assert_eq!(whole.options.function_registers, None);
    assert_eq!(whole.warnings.len(), 1);
}

#[test]
fn what_is_refused_names_what_is_missing_and_is_fine_when_not_wanted() {
    assert_eq!(
        refusal("-astoolspatch -c a.ptx"),
        "ptxas fatal   : Conflicting options '--compile-only' and --compile-as-tools-patch specified"
    );
    assert_eq!(
        refusal("-c -sanitize=memcheck a.ptx"),
        "ptxas fatal   : Not supported yet: calls of the checks of memcheck in objects (option '--sanitize=memcheck')"
    );
    // The checks of a whole program are told nothing.
    assert_eq!(read("-sanitize=memcheck a.ptx"), read("a.ptx"));
    assert!(read("-ewp -sanitize=memcheck a.ptx").options.extensible);
    read("-device-stack-protector=false a.ptx");
}

#[test]
fn every_row_can_be_given_by_both_of_its_names() {
    for row in OPTIONS {
        let value = match row.takes {
            Takes::Nothing => "",
            Takes::Truth => "=false",
            Takes::Number | Takes::NumberOf(_) | Takes::Level => "=64",
            Takes::OneOf(words) | Takes::SomeOf(words) => &format!("={}", words[words.len() - 1]),
            Takes::OptionsFiles => "=",
            Takes::List | Takes::Module => "=x",
            Takes::Texts => "=10029=always",
            Takes::FileText => "=knobs",
            Takes::Text => match row.long {
                "gpu-name" => "=sm_90",
                "Ofast-compile" => "=mid",
                name if name.ends_with("-cache") => "=cg",
                _ => "=32",
            },
        };
        let names = [format!("--{}", row.long), format!("-{}", row.short)];
        for name in names.iter().filter(|name| *name != "-") {
            let line = format!("{name}{value} a.ptx");
            match (read_with(&[("knobs", "# none")], &line), row.status) {
                (Ok(_), Status::Refused(_)) => assert_eq!(value, "=false", "{line}"),
                (Ok(_), _) => {}
                (Err(error), Status::Refused(feature)) => {
                    assert!(error.to_string().contains(feature), "{line}: {error}");
                }
                (Err(error), _) => panic!("{line}: {error}"),
            }
        }
    }
}

#[test]
fn values_out_of_range_are_warned_about_only_when_something_is_compiled() {
    let warnings = |line: &str| -> Vec<String> {
        let found = read(line).warnings;
        found.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        warnings("-arch=sm_90a -maxrregcount=8 -suppress-debug-info a.ptx"),
        [
            "ptxas warning : For profile sm_90a adjusting per thread register count of 8 to lower bound of 24",
            "ptxas warning : Option suppress-debug-info requires option device-debug or lineinfo; ignoring since latter is not specified",
        ]
    );
    assert_eq!(
        warnings("-maxrregcount=256 a.ptx"),
        ["ptxas warning : Too big maxrregcount value specified 256, will be ignored"]
    );
    assert_eq!(warnings("-maxrregcount=0x20 a.ptx"), [""; 0]);
    assert_eq!(warnings("-maxrregcount=8"), [""; 0]);
    assert_eq!(
        read("-Ofc m.ptx").action,
        Action::Help,
        "the only file is a value"
    );
}

#[test]
fn knobs_are_set_in_order_and_wrong_ones_are_refused() {
    use orias_codegen::knobs::registry::GENERAL_OPTIMIZE_KEEP;
    let files = [
        ("good", "GeneralOptimizeKeep=always\n"),
        ("bad", "\nKeep=1\n"),
    ];
    let keep = |line: &str| {
        let read = read_with(&files, line).unwrap_or_else(|error| panic!("{line}: {error}"));
        read.options.knobs.when(&GENERAL_OPTIMIZE_KEEP).to_string()
    };
    assert_eq!(keep("a.ptx"), "never");
    assert_eq!(keep("--knob-file=good a.ptx"), "always");
    assert_eq!(
        keep("--knob-file good --knob generaloptimizekeep=WHEN=op:mov,add a.ptx"),
        "WHEN=op:mov,add"
    );
    let refused = |line: &str| read_with(&files, line).expect_err(line).to_string();
    assert_eq!(
        refused("--knob GeneralOptimizeKep=always a.ptx"),
        "ptxas fatal   : no knob is named 'GeneralOptimizeKep', did you mean 'GeneralOptimizeKeep'?"
    );
    assert_eq!(
        refused("--knob-file=bad a.ptx"),
        "ptxas fatal   : Knob file, line 2: no knob is named 'Keep'"
    );
    assert_eq!(
        refused("--knob-file=none a.ptx"),
        "ptxas fatal   : Could not read file 'none'"
    );
}
