//! Command lines, options files and knob files.

use super::{Target, texts};
use orias::command_line::{parse, split_options_file};
use orias_codegen::knobs::{DefaultValue, Key, Knob, Knobs, Point, WhenList};

pub(super) const TARGETS: &[Target] = &[
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
];

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
    assert!(matches!(WHERE.knob.default, DefaultValue::Never));
}
