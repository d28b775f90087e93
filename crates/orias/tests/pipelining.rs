//! Loops whose loads run an iteration ahead compute what they did before, and read nothing that they did not read before.

use orias::{Options, Source, Target, compile};
use orias_cubin::Cubin;
use orias_sass::text::ListingStyle;
use orias_sim::{Checks, Device, Launch, Timing};

/// Each lane sums something over as many elements as its number says; the last element read is kept, and one loop stores as it goes.
const LOOPS: &str = r"
.version 8.4
.target sm_90a
.address_size 64
.visible .entry sums(.param .u64 out, .param .u64 in, .param .u32 most)
{
    .reg .pred %p<4>;
    .reg .b32 %r<12>;
    .reg .f32 %f<12>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [in];
    ld.param.u32 %r1, [most];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r2, %tid.x;
    rem.u32 %r3, %r2, %r1;
    add.u32 %r3, %r3, 1;
    mov.u32 %r4, 0;
    mov.f32 %f1, 0f00000000;
    mov.u64 %rd3, %rd2;
first:
    ld.global.f32 %f2, [%rd3];
    ld.global.nc.f32 %f3, [%rd3+4];
    ex2.approx.ftz.f32 %f4, %f2;
    rcp.approx.ftz.f32 %f5, %f4;
    fma.rn.f32 %f1, %f5, %f3, %f1;
    add.u64 %rd3, %rd3, 4;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, %r3;
    @%p1 bra first;
    mul.wide.u32 %rd4, %r2, 12;
    add.u64 %rd5, %rd1, %rd4;
    st.global.f32 [%rd5], %f1;
    st.global.f32 [%rd5+4], %f2;
    mov.u32 %r4, 0;
    mov.f32 %f6, 0f3f800000;
    mov.u64 %rd3, %rd2;
second:
    ld.global.f32 %f7, [%rd3];
    ex2.approx.ftz.f32 %f8, %f7;
    fma.rn.f32 %f6, %f6, %f8, %f7;
    st.global.f32 [%rd5+8], %f6;
    add.u64 %rd3, %rd3, 4;
    add.u32 %r4, %r4, 1;
    setp.ge.u32 %p2, %r4, %r3;
    @!%p2 bra second;
    ret;
}
";

fn cubin(pipelined: bool) -> Vec<u8> {
    let mut options = Options {
        target: Target::parse("sm_90a").expect("a target"),
        ..Options::default()
    };
    let knob = format!("SchedSoftwarePipelining={pipelined}");
    options.knobs.set(&knob).expect("a knob");
    let source = Source {
        name: "sums.ptx",
        text: LOOPS.as_bytes(),
    };
    let compiled = compile(&source, &options).expect("the kernel compiles");
    compiled.cubin.expect("a cubin")
}

fn guarded_loads(image: &[u8]) -> usize {
    let cubin = Cubin::read(image).expect("a cubin");
    let style = ListingStyle { control: false };
    let text = orias::disassemble(&cubin, orias_sass::Target::Sm90a, style);
    text.lines()
        .filter(|line| line.contains("LDG") && (line.contains("@P") || line.contains("@!P")))
        .count()
}

/// What the lanes of a warp write; the input ends where the longest loop does.
fn run(image: &[u8], timing: Timing) -> Vec<u8> {
    let mut device = Device::new();
    let module = device.load(image).expect("it loads");
    let input: Vec<u8> = (0..12u32)
        .flat_map(|i| (i as f32 / 7.0 - 0.5).to_le_bytes())
        .collect();
    let input = device.allocate(&input);
    let out = device.allocate(&[0; 32 * 12]);
    let launch = Launch {
        kernel: "sums".to_owned(),
        grid: [1; 3],
        block: [32, 1, 1],
        cluster: None,
        dynamic_shared: 0,
        arguments: vec![
            out.to_le_bytes().to_vec(),
            input.to_le_bytes().to_vec(),
            11u32.to_le_bytes().to_vec(),
        ],
    };
    let options = orias_sim::Options {
        timing,
        checks: Checks::ALL,
        ..orias_sim::Options::default()
    };
    let outcome = device.launch(&module, &launch, &options).expect("it runs");
    assert!(outcome.fault.is_none(), "{:?}", outcome.fault);
    assert!(outcome.findings.is_empty(), "{:?}", outcome.findings);
    device.read(out, 32 * 12).expect("it is there")
}

#[test]
fn pipelined_loops_compute_the_same_and_read_no_further() {
    let (plain, pipelined) = (cubin(false), cubin(true));
    assert_eq!(guarded_loads(&plain), 0);
    assert!(guarded_loads(&pipelined) >= 2, "nothing was pipelined");
    let expected = run(&plain, Timing::Strict);
    assert!(expected.iter().any(|&byte| byte != 0));
    for timing in [
        Timing::Off,
        Timing::Strict,
        Timing::Random(1),
        Timing::Random(2),
    ] {
        assert_eq!(run(&pipelined, timing), expected, "{timing:?}");
    }
}
