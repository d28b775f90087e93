//! The readers and their promises.

use orias::command_line::{parse, split_options_file};
use orias_codegen::knobs::{Default as KnobDefault, Key, Knob, Knobs, Point, WhenList};
use orias_cubin::build::{BuildTarget, Entry, Function, Module};
use orias_cubin::{Cubin, PrintOptions};

/// A reader of outside text or bytes.
pub struct Target {
    /// Its name, and that of its program below `fuzz/fuzz_targets/`.
    pub name: &'static str,
    /// Good inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something to it.
    pub words: &'static [&'static str],
    /// Panics when the reader breaks its promise on `input`.
    pub check: fn(input: &[u8]),
}

/// Every reader there is.
pub const TARGETS: &[Target] = &[
    Target {
        name: "command_line",
        seeds: || {
            texts(&[
                "-arch=sm_90a\n-O3\na.ptx\n-o\nb",
                "--entry=a,b\n-maxrregcount\n32\n-optf\nx\n-",
            ])
        },
        words: &[
            "-",
            "--",
            "=",
            ",",
            "\"",
            "-O",
            "-m",
            "--opt-level=",
            "-optf=",
            "-ias",
            "\n",
            "true",
            "0x",
        ],
        check: command_line,
    },
    Target {
        name: "options_file",
        seeds: || texts(&["-o \"x y\" -O3", "a\\ b \"c\\\"d\"\n-v"]),
        words: &["\"", "\\", " ", "\n"],
        check: options_file,
    },
    Target {
        name: "knob_file",
        seeds: || {
            texts(&[
                "# all kinds\nFlag=true\nCount=0x10\n3=1.5\nName=x\nWhere=WHEN=op:LD*&block:1-3;WHEN=inst:7\n",
            ])
        },
        words: &[
            "WHEN=", "op:", "func:", "block:", "inst:", "!", "&", ";", ",", "*", "-", "always",
            "never", "=", "\n",
        ],
        check: knob_file,
    },
    Target {
        name: "cubin",
        seeds: || vec![small_cubin()],
        words: &[
            "\x7fELF",
            ".nv.info",
            ".text.k",
            "\0",
            "\u{4}/",
            "\u{4}\u{17}",
        ],
        check: cubin,
    },
];

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Arguments are the input's lines; every options file holds the whole input again, so files nest as deep as they may.
fn command_line(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut opened = 0;
    let mut read_file = |_: &str| {
        opened += 1;
        (opened < 100).then(|| input.to_vec())
    };
    match parse(text.lines().map(String::from), &mut read_file) {
        Ok(invocation) => assert!(invocation.options.opt_level <= 3),
        Err(refusal) => assert!(refusal.has_errors()),
    }
}

/// What was split can be quoted and split again.
fn options_file(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(arguments) = split_options_file(&text) else {
        return;
    };
    let quoted: Vec<String> = arguments
        .iter()
        .map(|argument| {
            format!(
                "\"{}\"",
                argument.replace('\\', "\\\\").replace('"', "\\\"")
            )
        })
        .collect();
    assert_eq!(
        split_options_file(&quoted.join(" ")).as_ref(),
        Ok(&arguments)
    );
}

static FLAG: Key<bool> = Key::<bool>::new(1, "Flag", false, "", "");
static COUNT: Key<i64> = Key::<i64>::new(2, "Count", 0, "", "");
static FACTOR: Key<f64> = Key::<f64>::new(3, "Factor", 0.0, "", "");
static NAME: Key<str> = Key::<str>::new(4, "Name", "", "", "");
static WHERE: Key<WhenList> = Key::<WhenList>::new(5, "Where", "", "");
/// A registry with a knob of each type.
static ONE_OF_EACH: &[&Knob] = &[
    &FLAG.knob,
    &COUNT.knob,
    &FACTOR.knob,
    &NAME.knob,
    &WHERE.knob,
];

/// A good file leaves values of the right type, and a list of conditions prints as it was read; a bad file changes nothing.
fn knob_file(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut knobs = Knobs::new(ONE_OF_EACH);
    let untouched = knobs.clone();
    if knobs.set_from_file(&text).is_err() {
        assert!(knobs == untouched);
        return;
    }
    assert!(knobs.double(&FACTOR).is_finite());
    let list = knobs.when(&WHERE);
    assert_eq!(WhenList::parse(&list.to_string()).as_ref(), Ok(list));
    let point = Point {
        function: "main",
        block: 3,
        instruction: Some((7, "LDG.E")),
    };
    assert!(!list.is_never() || !list.holds(point));
    assert!(matches!(WHERE.knob.default, KnobDefault::Never));
}

/// A cubin with one kernel.
fn small_cubin() -> Vec<u8> {
    let mut module = Module::new(BuildTarget::SM_90A);
    module.functions.push(Function {
        name: "k".to_owned(),
        entry: Some(Entry::default()),
        code: vec![0; 128],
        registers: 8,
        exits: vec![0x10],
        ..Function::default()
    });
    let cubin = module.build().expect("a good module");
    cubin.write().expect("a good model")
}

/// A file that is read is written back as it was, and everything in it can be printed; one that is refused is refused at a place in it.
fn cubin(input: &[u8]) {
    match Cubin::read(input) {
        Ok(cubin) => {
            assert_eq!(cubin.write().as_deref(), Ok(input));
            assert!(!orias_cubin::print(&cubin, PrintOptions::default()).is_empty());
            assert!(orias_cubin::to_json(&cubin).is_object());
        }
        Err(error) => assert!(error.to_string().contains("file offset")),
    }
}
