//! What a cubin says of a kernel's synchronisation: named barriers, mbarriers and what works on them, and whether errors are reported before its threads end.

use orias::{Options, Source, Target, compile};
use orias_cubin::Cubin;
use orias_cubin::attribute::{Attribute, MbarrierKind, Value, id};

const HEAD: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

fn compiled(text: &str, settings: &[&str]) -> Cubin {
    compiled_as(&format!("{HEAD}{text}"), settings)
}

fn compiled_as(text: &str, settings: &[&str]) -> Cubin {
    let mut options = Options {
        target: Target::parse("sm_90a").expect("a target"),
        ..Options::default()
    };
    for setting in settings {
        options.knobs.set(setting).expect("a good knob");
    }
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    match compile(&source, &options) {
        Ok(compiled) => Cubin::read(&compiled.cubin.expect("a cubin")).expect("a cubin that reads"),
        Err(found) => panic!("{:?}", found.0),
    }
}

/// The attributes in a section.
fn attributes(cubin: &Cubin, section: &str) -> Vec<Attribute> {
    let mut sections = cubin.sections.iter();
    let found = sections.find(|it| it.name.text == section);
    found
        .unwrap_or_else(|| panic!("no {section}"))
        .attributes()
        .expect("attributes")
        .to_vec()
}

fn value(cubin: &Cubin, section: &str, id: u8) -> Option<Value> {
    let mut all = attributes(cubin, section).into_iter();
    all.find(|it| it.id == id).map(|it| it.value)
}

/// One more than the highest number of a barrier; all of them where a register says which; nothing where there is none.
#[test]
fn named_barriers_are_counted_by_the_highest() {
    let kernel = |name: &str, body: &str| {
        format!(
            ".visible .entry {name}(.param .u64 p) {{\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\n{body}ret;\n}}\n"
        )
    };
    let text = kernel("none", "")
        + &kernel("first", "bar.sync 0;\n")
        + &kernel("sixth", "bar.sync 5;\nbar.sync 2;\n")
        + &kernel("arrives", "bar.arrive 9, 64;\nbar.sync 1;\n")
        + &kernel("any", "bar.sync %r1;\n");
    let cubin = compiled(&text, &[]);
    let count = |name: &str| match value(&cubin, &format!(".nv.info.{name}"), id::NUM_BARRIERS) {
        Some(Value::Byte(count, _)) => Some(count),
        None => None,
        other => panic!("{other:?}"),
    };
    let names = ["none", "first", "sixth", "arrives", "any"];
    assert_eq!(
        names.map(count),
        [None, Some(1), Some(6), Some(10), Some(16)]
    );
}

/// Which instructions work on mbarriers, in order, by what they do; arrivals that announce transactions are not told, and a wait with a time limit is one although it looks twice.
#[test]
fn instructions_that_work_on_mbarriers_are_told_by_kind() {
    use MbarrierKind as K;
    let text = ".visible .entry k(.param .u64 p) {\n.reg .b64 %rd<8>;\n.reg .b32 %r<8>;\n.reg .pred %p<4>;\n.shared .align 8 .b64 a;\n.shared .align 8 .b64 b;\n\
        ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\n\
        mbarrier.init.shared.b64 [a], 2;\nmbarrier.init.shared.b64 [b], 1;\nbar.sync 0;\n\
        mbarrier.arrive.shared.b64 %rd2, [a];\nmbarrier.arrive_drop.shared.b64 _, [b];\nmbarrier.arrive.expect_tx.shared.b64 _, [a], 16;\n\
        mbarrier.expect_tx.relaxed.cta.shared.b64 [a], 16;\nmbarrier.complete_tx.relaxed.cta.shared.b64 [a], 16;\n\
        mbarrier.test_wait.shared.b64 %p1, [a], %rd2;\nmbarrier.try_wait.parity.shared.b64 %p2, [a], %r1, 100;\nmbarrier.test_wait.parity.shared.b64 %p3, [a], 0;\n\
        selp.u32 %r2, 1, 0, %p1;\nselp.u32 %r3, 2, %r2, %p2;\nselp.u32 %r4, 3, %r3, %p3;\nst.global.u32 [%rd1], %r4;\nbar.sync 0;\nmbarrier.inval.shared.b64 [a];\nret;\n}\n\
        .visible .entry without() {\nbar.sync 0;\nret;\n}\n";
    let cubin = compiled(text, &[]);
    let Some(Value::Mbarriers(uses)) = value(&cubin, ".nv.info.k", id::MBARRIER_INSTR_OFFSETS)
    else {
        panic!("no list");
    };
    let kinds: Vec<u8> = uses.iter().map(|it| it.kind_and_stride as u8).collect();
    let wanted = [
        K::Init,
        K::Init,
        K::Arrive,
        K::ArriveDrop,
        K::ExpectTx,
        K::CompleteTx,
        K::TestWait,
        K::TryWaitParity,
        K::TestWaitParity,
        K::Inval,
    ];
    let mut sorted = kinds.clone();
    sorted.sort_unstable();
    let mut all = wanted.map(|it| it as u8);
    all.sort_unstable();
    assert_eq!(sorted, all);
    assert_eq!(kinds[..2], [K::Init as u8; 2]);
    assert!(uses.is_sorted_by_key(|it| it.offset));
    // Set up by uniform registers alone.
    assert_eq!(uses[0].register, 255);
    assert_ne!(uses[0].uniform_register, 63);
    assert_eq!(
        value(&cubin, ".nv.info.k", id::NUM_MBARRIERS),
        Some(Value::Half(2))
    );
    for id in [id::MBARRIER_INSTR_OFFSETS, id::NUM_MBARRIERS] {
        assert_eq!(value(&cubin, ".nv.info.without", id), None);
    }
}

/// Once for each kernel, behind its frame size; and nowhere without the option.
#[test]
fn reports_before_the_end_are_told_once_for_each_kernel() {
    let text = ".visible .entry one() {\nret;\n}\n.visible .entry two() {\nret;\n}\n";
    let told = |settings: &[&str]| {
        let all = attributes(&compiled(text, settings), ".nv.info");
        let ids: Vec<u8> = all.iter().map(|it| it.id).collect();
        let places = 1..ids.len();
        let places = places.filter(|&at| ids[at] == id::GEN_ERRBAR_AT_EXIT);
        places.map(|at| ids[at - 1]).collect::<Vec<u8>>()
    };
    assert_eq!(told(&["GenErrbarAtExit=true"]), [id::FRAME_SIZE; 2]);
    assert_eq!(told(&[]), Vec::<u8>::new());
}

/// A module whose textures and samplers are named apart says so.
#[test]
fn independent_textures_are_told_of() {
    let kernel = ".visible .entry k() {\nret;\n}\n";
    let apart = HEAD.replace("sm_90a", "sm_90a, texmode_independent");
    for (head, told) in [(apart.as_str(), Some(Value::Flag(0))), (HEAD, None)] {
        let cubin = compiled_as(&format!("{head}{kernel}"), &[]);
        assert_eq!(value(&cubin, ".nv.info", id::TEXMODE_INDEPENDENT), told);
    }
}
