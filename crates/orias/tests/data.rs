//! Variables in finished cubins: addresses in initial values lead where the PTX says, in the emulator as in the interpreter, and
//! modules without code have their symbols.

use orias::run::Request;
use orias::{Options, Source, Target, compile};
use orias_cubin::attribute::id;
use orias_cubin::elf::stb;
use orias_cubin::{Cubin, SymbolPlace};

fn compiled(text: &str, level: u8) -> Vec<u8> {
    let options = Options {
        target: Target::parse("sm_90a").expect("a target"),
        opt_level: level,
        ..Options::default()
    };
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    match compile(&source, &options) {
        Ok(compiled) => compiled.cubin.expect("a cubin"),
        Err(diagnostics) => panic!("{:?}", diagnostics.0),
    }
}

fn output(code: &[u8], words: &[&str]) -> String {
    let mut request = Request::parse_words(words).expect("words of a run");
    request.max_steps = Some(1_000_000);
    let answer = request.execute(code, &mut |_, _| {});
    let answer = answer.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert_eq!(answer.failure, None, "{words:?}");
    answer.output
}

/// Runs each line `// run:` of a test of the interpreter on code of ours, too.
fn emulator_agrees(text: &str) {
    // Below the PTX the lines stand again, among what is expected.
    let above = text.lines().take_while(|line| line.starts_with("//"));
    let runs = above.filter_map(|line| line.strip_prefix("// run: "));
    let mut seen = 0;
    for run in runs {
        let words: Vec<&str> = run.split_whitespace().collect();
        let mut interpreted = words.clone();
        interpreted.push("--interpret");
        let meant = output(text.as_bytes(), &interpreted);
        for level in [0, 3] {
            assert_eq!(
                output(&compiled(text, level), &words),
                meant,
                "{words:?} -O{level}"
            );
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn addresses_in_data_lead_where_they_say() {
    emulator_agrees(include_str!("../../../tests/run/data.ptx"));
}

#[test]
fn a_launch_without_clusters_is_one_of_clusters_of_one_block() {
    emulator_agrees(include_str!("../../../tests/run/launch_words.ptx"));
}

#[test]
fn atomic_operations_on_128_bits_are_emulated() {
    emulator_agrees(include_str!("../../../tests/run/wide_atomics.ptx"));
}

const HEAD: &str = ".version 8.8\n.target sm_90a\n.address_size 64\n";

/// Names of visible variables with the sections they lie in.
fn visible(text: &str) -> Vec<(String, String)> {
    let file = compiled(&format!("{HEAD}{text}"), 3);
    let cubin = Cubin::read(&file).expect("our own cubin");
    let symbols = cubin.symbols().iter().filter_map(|symbol| {
        let SymbolPlace::Section(section) = symbol.place else {
            return None;
        };
        let section = cubin.sections.get(usize::from(section))?;
        let found = (symbol.name.text.clone(), section.name.text.clone());
        (symbol.binding == stb::GLOBAL).then_some(found)
    });
    symbols.collect()
}

#[test]
fn modules_without_code_have_their_symbols() {
    let found = |text: &str| {
        let found = visible(text);
        let found = found.iter().map(|(name, place)| format!("{name} {place}"));
        found.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        found(".visible .global .u32 a = 5;\n.global .u32 b;\n.visible .global .u32 c;"),
        "c .nv.global, a .nv.global.init"
    );
    assert_eq!(found(".visible .const .u32 a = 5;"), "a .nv.constant3");
    assert_eq!(
        found(".visible .global .u32 a;\n.visible .const .u64 b = a;"),
        "b .nv.constant3, a .nv.global"
    );
    assert_eq!(found(".visible .func f() { ret; }"), "");
    assert_eq!(found(""), "");
    // NVIDIA's tools take a file whose section of attributes is empty for a broken one.
    let code = compiled(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.global .u32 a;",
        3,
    );
    let cubin = Cubin::read(&code).expect("a cubin");
    let info = cubin.section(".nv.info").expect("the section");
    let ids: Vec<u8> = (info.attributes().expect("attributes").iter())
        .map(|attribute| attribute.id)
        .collect();
    assert_eq!(ids, [id::MERCURY_ISA_VERSION]);
    let names: Vec<&str> = (cubin.sections.iter())
        .map(|section| section.name.text.as_str())
        .collect();
    assert_eq!(names[4..6], [".debug_frame", ".note.nv.tkinfo"]);
    // What no module defines is defined here.
    assert_eq!(found(".extern .global .u32 a;"), "a .nv.global");
}

#[test]
fn the_address_of_a_function_is_not_null() {
    let text = format!(
        "{HEAD}.visible .func f() {{ ret; }}\n.visible .func g() {{ ret; }}\n.global .u64 p[2] = {{g, f}};"
    );
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    let options = Options {
        target: Target::parse("sm_90a").expect("a target"),
        ..Options::default()
    };
    let image = compile(&source, &options).expect("compiles").cubin;
    let cubin = Cubin::read(&image.expect("a cubin")).expect("readable");
    let data = cubin.section(".nv.global.init").and_then(|it| it.bytes());
    let data = data.expect("the data");
    let words: Vec<u64> = data
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect();
    assert!(
        words[0] != 0 && words[1] != 0 && words[0] != words[1],
        "{words:?}"
    );
}
