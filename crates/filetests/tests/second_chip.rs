//! A chip is data: code for sm_99, which is a few lines of tables that differ from sm_90's, is compiled, judged and emulated in the same process as code for
//! sm_90a, and differs as the lines say.

use orias::target::TargetKind;
use orias::{Options, Source, assemble_cubin, chip_of, compile};
use orias_cubin::Cubin;
use orias_machine::Machine;
use orias_sass::Target;
use orias_sim::{Device, Launch, Timing};
use orias_verify::program::Program;
use std::fmt::Write as _;

const CHIPS: [Target; 2] = [Target::Sm90a, Target::Sm99];

/// So many values are live at a time in `many`.
const MANY: usize = 140;

/// `chain`: dependent arithmetic and a turn through shared memory. `many`: values that are all loaded before the first of them is used.
fn source() -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_90\n.address_size 64\n
.visible .entry chain(.param .u64 in, .param .u64 out) {
    .reg .b64 %rd<6>; .reg .f32 %f<8>; .reg .b32 %r<6>;
    .shared .align 4 .b8 tile[128];
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    fma.rn.f32 %f2, %f1, %f1, %f1; fma.rn.f32 %f3, %f2, %f1, %f2;
    fma.rn.f32 %f4, %f3, %f1, %f3; fma.rn.f32 %f5, %f4, %f1, %f4;
    mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.s32 %r4, %r2, %r3;
    st.shared.f32 [%r4], %f5; bar.sync 0;
    xor.b32 %r5, %r3, 124; add.s32 %r4, %r2, %r5; ld.shared.f32 %f6, [%r4];
    add.f32 %f7, %f6, %f5; st.global.f32 [%rd5], %f7; ret;
}
.visible .entry many(.param .u64 in, .param .u64 out) {
",
    );
    let _ = writeln!(text, "    .reg .b64 %rd<3>; .reg .b32 %r<{}>;", MANY + 2);
    text += "    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r0, 0;\n";
    for index in 1..=MANY {
        let _ = writeln!(
            text,
            "    ld.volatile.global.u32 %r{index}, [%rd1+{}];",
            4 * index
        );
    }
    // Each is read twice, the second time in the opposite order, so that all are needed at once whatever the order.
    for index in (1..=MANY).chain((1..=MANY).rev()) {
        let _ = writeln!(text, "    xor.b32 %r0, %r0, %r{index};");
        let _ = writeln!(text, "    mul.lo.s32 %r0, %r0, {};", 2 * index + 1);
    }
    text + "    st.global.u32 [%rd2], %r0; ret;\n}\n"
}

/// The options to compile for a target that no option of the command names.
fn options(target: Target) -> Options {
    let gpu = orias_ptx::target::Target {
        sm: target.sm(),
        variant: if target.is_accelerated() {
            orias_ptx::target::Variant::Architecture
        } else {
            orias_ptx::target::Variant::Base
        },
    };
    Options {
        target: orias::Target {
            kind: TargetKind::Real,
            gpu,
        },
        ..Options::default()
    }
}

fn compiled(target: Target) -> Vec<u8> {
    let text = source();
    let source = Source {
        name: "two.ptx",
        text: text.as_bytes(),
    };
    let made = compile(&source, &options(target));
    let made = made.unwrap_or_else(|errors| panic!("{target}: {errors:?}"));
    made.cubin.expect("a real target has a cubin")
}

/// What the functions of a cubin would be told to change on `target`.
fn findings(cubin: &[u8], target: Target) -> Vec<String> {
    let cubin = Cubin::read(cubin).expect("a cubin");
    let mut findings = Vec::new();
    for function in cubin.functions() {
        let program = Program::of(&function, target).expect("it decodes");
        let found = orias_verify::judge_program(&program).expect("every operation has a timing");
        findings.extend(found.iter().map(ToString::to_string));
    }
    findings
}

fn run(cubin: &[u8], kernel: &str, threads: u32) -> Vec<u8> {
    let mut device = Device::new();
    let module = device.load(cubin).expect("it loads");
    let values: Vec<u8> = (0..512u32)
        .flat_map(|index| (1.0 + index as f32 / 8.0).to_le_bytes())
        .collect();
    let (from, to) = (device.allocate(&values), device.allocate(&[0; 128]));
    let launch = Launch {
        kernel: kernel.to_owned(),
        grid: [1; 3],
        block: [threads, 1, 1],
        arguments: vec![from.to_le_bytes().to_vec(), to.to_le_bytes().to_vec()],
        ..Launch::default()
    };
    let options = orias_sim::Options {
        timing: Timing::Strict,
        ..orias_sim::Options::default()
    };
    let outcome = device
        .launch(&module, &launch, &options)
        .expect("it can be launched");
    assert!(outcome.fault.is_none(), "{:?}", outcome.fault);
    device.read(to, 128).expect("it is there")
}

#[test]
fn both_are_compiled_judged_and_emulated_in_one_process() {
    let [ours, other] = CHIPS.map(compiled);
    let read = |cubin: &[u8]| Cubin::read(cubin).expect("a cubin");
    assert_eq!(read(&ours).target(), "sm_90a");
    assert_eq!(read(&other).target(), "sm_99");
    assert_eq!(findings(&ours, Target::Sm90a), Vec::<String>::new());
    assert_eq!(findings(&other, Target::Sm99), Vec::<String>::new());
    for (kernel, threads) in [("chain", 32), ("many", 1)] {
        let results = [&ours, &other].map(|cubin| run(cubin, kernel, threads));
        assert_eq!(results[0], results[1], "{kernel}");
        assert!(results[0].iter().any(|byte| *byte != 0), "{kernel}");
    }
    // Once more, after the other chip: what was worked out for one is not used for the other.
    assert_eq!(compiled(Target::Sm90a), ours);
    assert_eq!(compiled(Target::Sm99), other);
}

#[test]
fn code_for_the_faster_chip_is_wrong_on_the_slower_one_and_not_the_other_way_round() {
    let [ours, other] = CHIPS.map(compiled);
    let found = findings(&ours, Target::Sm99);
    assert!(
        found
            .iter()
            .any(|finding| finding.contains("FFMA") && finding.contains("7 cycles")),
        "{found:#?}"
    );
    assert_eq!(findings(&other, Target::Sm90a), Vec::<String>::new());
}

#[test]
fn registers_and_places_are_those_of_the_chip() {
    for (target, cubin) in CHIPS.map(|target| (target, compiled(target))) {
        let machine = Machine::of(target);
        let cubin = Cubin::read(&cubin).expect("a cubin");
        let view = cubin
            .functions()
            .into_iter()
            .find(|view| view.name == "many");
        let view = view.expect("the kernel is there");
        let registers = view.registers.expect("it says so");
        let most = u32::from(machine.registers.general) + machine.registers.reserved;
        assert!(registers <= most, "{target}: {registers}");
        // All values fit into one chip's registers and not into the other's.
        assert_eq!(registers as usize > MANY, most as usize > MANY, "{target}");
        let (base, _) = view.param_bank.expect("it has parameters");
        assert_eq!(i32::from(base), machine.constants.params, "{target}");
    }
    assert_ne!(
        chip_of(Target::Sm90a).reserved_shared,
        chip_of(Target::Sm99).reserved_shared
    );
}

/// The second FFMA issues four cycles behind the first: soon enough for one chip, too soon for the other, where it reads the old value.
const HASTY: &str = ".kernel k
[B------:R-:W-:-:S06] MOV R1, 0x3f800000 ;
[B------:R-:W-:-:S15] MOV R2, 0x40000000 ;
[B------:R-:W-:-:S04] FFMA R2, R1, R1, R1 ;
[B------:R-:W-:-:S15] FFMA R3, R2, R2, R1 ;
[B------:R-:W-:-:S15] NOP ;
[B------:R-:W-:-:S05] EXIT ;
";

#[test]
fn the_emulator_takes_the_latencies_of_the_chip_the_cubin_is_for() {
    let hazards = CHIPS.map(|target| {
        let cubin = assemble_cubin(HASTY, target);
        let cubin = cubin.unwrap_or_else(|errors| panic!("{errors:?}"));
        let file = cubin.write().expect("a good model");
        let mut device = Device::new();
        let module = device.load(&file).expect("it loads");
        let launch = Launch {
            kernel: "k".to_owned(),
            grid: [1; 3],
            block: [32, 1, 1],
            ..Launch::default()
        };
        let options = orias_sim::Options {
            timing: Timing::Strict,
            checks: orias_sim::Checks {
                hazards: true,
                ..orias_sim::Checks::NONE
            },
            ..orias_sim::Options::default()
        };
        let outcome = device
            .launch(&module, &launch, &options)
            .expect("it can be launched");
        outcome.findings.len()
    });
    assert_eq!(hazards[0], 0);
    assert!(hazards[1] > 0);
}

#[test]
fn launches_are_refused_by_the_limits_of_the_chip() {
    let launched = CHIPS.map(|target| {
        let mut device = Device::new();
        let module = device.load(&compiled(target)).expect("it loads");
        let place = device.allocate(&[0; 4096]).to_le_bytes().to_vec();
        let launch = Launch {
            kernel: "chain".to_owned(),
            grid: [1; 3],
            block: [32, 1, 1],
            cluster: None,
            dynamic_shared: 100 << 10,
            arguments: vec![place.clone(), place],
        };
        let outcome = device.launch(&module, &launch, &orias_sim::Options::default());
        outcome.is_ok()
    });
    assert_eq!(launched, [true, false]);
}
