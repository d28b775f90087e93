//! Requests of the page.

use super::{Target, texts};

pub(super) const TARGETS: &[Target] = &[Target {
    name: "view",
    seeds,
    words: &[
        "\"do\"",
        "\"inspect\"",
        "\"trace\"",
        "\"knobs\"",
        "\"ptx\"",
        "\"cubin\"",
        "\"options\"",
        "\"launch\"",
        "\"reschedule\"",
        "\"shuffle\"",
        "\"warp\"",
        "\"block\"",
        "--block",
        "--grid",
        "--timing strict",
        "buf:u32:8:index",
        "f0VMRg==",
        "-O0",
        "-arch=sm_90",
        "null",
        "[",
        "{",
        "4294967295",
    ],
    check: view,
}];

const KERNEL: &str = ".version 8.0\\n.target sm_90a\\n.address_size 64\\n.visible .entry k(.param .u64 a)\\n{\\n.reg .b64 %rd<3>;\\n.reg .b32 %r<3>;\\nld.param.u64 %rd1, [a];\\nmov.u32 %r1, %tid.x;\\nst.global.u32 [%rd1], %r1;\\nret;\\n}\\n";

fn seeds() -> Vec<Vec<u8>> {
    let of_kernel = |rest: &str| format!("{{\"ptx\": \"{KERNEL}\", {rest}}}").into_bytes();
    let mut seeds = texts(&[
        r#"{"do": "knobs"}"#,
        r#"{"do": "inspect", "cubin": "f0VMRg=="}"#,
        r#"{"do": "inspect", "ptx": "nonsense"}"#,
    ]);
    seeds.push(of_kernel(r#""do": "inspect", "options": "-O1""#));
    seeds.push(of_kernel(
        r#""do": "inspect", "reschedule": true, "shuffle": 3"#,
    ));
    seeds.push(of_kernel(
        r#""do": "trace", "launch": "--block 4 buf:u32:8", "warp": 0, "block": [0, 0, 0]"#,
    ));
    // A cubin whose letters are changed is a cubin whose code, attributes or symbols are.
    let listing = ".kernel k\n[B------:R-:W0:Y:S01] S2R R0, SR_TID.X ;\n[B0-----:R-:W-:-:S05] ISETP.NE.AND P0, PT, R0, RZ, PT ;\n[B------:R-:W-:Y:S05] @P0 BRA `(.L) ;\n[B------:R-:W-:-:S05] IADD3 R2, R0, 0x1, RZ ;\n.L:\n[B------:R-:W-:Y:S05] EXIT ;\n";
    if let Ok(cubin) = orias::assemble_cubin(listing, orias_sass::Target::DEFAULT)
        && let Ok(image) = cubin.write()
    {
        let letters = orias::view::base64::encode(&image);
        for rest in [
            r#""do": "inspect""#,
            r#""do": "inspect", "reschedule": true"#,
            r#""do": "trace", "launch": "--block 32 --timing strict""#,
        ] {
            seeds.push(format!("{{\"cubin\": \"{letters}\", {rest}}}").into_bytes());
        }
    }
    seeds
}

/// Whatever is asked, the answer is an object that says whether it is one, and if not, why.
fn view(input: &[u8]) {
    let request = String::from_utf8_lossy(input);
    let answer = orias::view::call(&request);
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("an answer is JSON");
    match answer["ok"].as_bool() {
        Some(true) => assert!(answer.as_object().is_some_and(|it| it.len() == 2)),
        Some(false) => assert!(answer["error"].as_str().is_some_and(|it| !it.is_empty())),
        None => panic!("neither an answer nor a refusal: {answer}"),
    }
}
