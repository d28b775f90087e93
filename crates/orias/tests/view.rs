//! What the page is told, by the door it asks through.

use orias::view::call;
use serde_json::{Value, json};

fn ask(request: &Value) -> Value {
    serde_json::from_str(&call(&request.to_string())).expect("an answer is JSON")
}

fn example(name: &str) -> String {
    let path = format!("{}/../../examples/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("an example")
}

fn inspected(request: &Value) -> Value {
    let mut answer = ask(request);
    assert_eq!(answer["ok"], true, "{answer}");
    answer["document"].take()
}

#[test]
fn every_instruction_has_a_line_a_control_word_in_words_and_a_cycle() {
    let ptx = example("vector_add");
    let document = inspected(&json!({"do": "inspect", "name": "v.ptx", "ptx": ptx}));
    assert_eq!(document["target"], "sm_90a");
    let function = &document["functions"][0];
    assert_eq!(function["name"], "vector_add");
    assert_eq!(function["notes"], json!([]));
    let instructions = function["instructions"].as_array().unwrap();
    let blocks = function["blocks"].as_array().unwrap();
    let counted: u64 = blocks.iter().filter_map(|it| it["count"].as_u64()).sum();
    assert_eq!(counted as usize, instructions.len());
    for row in instructions {
        let control = row["control"].as_str().unwrap();
        let said = row["explained"].as_array().unwrap();
        let stall = format!("Stall {}:", row["stall"]);
        assert!(
            said.iter()
                .any(|it| it.as_str().unwrap().starts_with(&stall))
        );
        // A sentence for each field that is set, and for nothing else.
        let set = |field: usize| {
            control
                .split(':')
                .nth(field)
                .unwrap()
                .contains(|c: char| c.is_ascii_digit())
        };
        let sentences = usize::from(set(0)) + usize::from(set(1)) + usize::from(set(2));
        assert!(said.len() > sentences, "{control} {said:?}");
        assert!(row["words"]["issue"].is_u64() && row["model"]["issue"].is_u64());
    }
    // The load stands where the PTX has it, and its user waits for the barrier that it holds.
    let find = |operation: &str| {
        instructions
            .iter()
            .position(|it| it["operation"] == operation)
            .unwrap()
    };
    let (load, sum) = (find("LDG"), find("FADD"));
    let line = instructions[load]["line"].as_u64().unwrap() as usize;
    assert!(ptx.lines().nth(line - 1).unwrap().contains("ld.global.f32"));
    assert!(instructions[sum]["waits"].is_array());
    assert!(instructions[sum]["words"]["waited"].as_u64().unwrap() > 100);
    let blamed = instructions[sum]["words"]["blamed"].as_u64().unwrap() as usize;
    assert_eq!(instructions[blamed]["operation"], "LDG");
    let depends = instructions[sum]["depends"].as_array().unwrap();
    assert!(
        depends
            .iter()
            .any(|it| it["on"] == load && it["met"] == true)
    );
}

#[test]
fn what_the_judge_finds_stands_at_its_instruction() {
    let listing = ".kernel k\n[B------:R-:W-:-:S01] IADD3 R2, R2, 0x1, RZ ;\n[B------:R-:W-:-:S05] IADD3 R3, R2, 0x1, RZ ;\n[B------:R-:W-:-:S05] EXIT ;\n";
    let cubin = orias::assemble_cubin(listing, orias_sass::Target::DEFAULT).expect("a cubin");
    let letters = orias::view::base64::encode(&cubin.write().expect("bytes"));
    let document = inspected(&json!({"do": "inspect", "cubin": letters}));
    let function = &document["functions"][0];
    assert_eq!(function["findings"], 1);
    let finding = &function["instructions"][1]["findings"][0];
    assert_eq!(
        (&finding["check"], &finding["earlier"]),
        (&json!("schedule"), &json!(0))
    );
}

#[test]
fn two_levels_and_a_new_order_can_be_compared() {
    let ptx = example("polynomial");
    let of = |options: &str| inspected(&json!({"do": "inspect", "ptx": ptx, "options": options}));
    let cycles = |document: &Value| -> u64 {
        let blocks = document["functions"][0]["blocks"].as_array().unwrap();
        blocks.iter().filter_map(|it| it["words"].as_u64()).sum()
    };
    assert!(cycles(&of("-O0")) > cycles(&of("-O3")));
    let again = json!({"do": "inspect", "ptx": ptx, "reschedule": true, "shuffle": 1});
    assert_eq!(inspected(&again)["rescheduled"], true);
}

#[test]
fn steps_tell_what_changed_in_which_lanes() {
    let request = json!({
        "do": "trace", "ptx": example("collatz"), "launch": "--block 32 buf:u32:32:index buf:u32:32",
    });
    let answer = ask(&request);
    assert_eq!(answer["ok"], true, "{answer}");
    let trace = &answer["trace"];
    assert_eq!(
        (&trace["fault"], &trace["kernel"]),
        (&Value::Null, &json!("collatz"))
    );
    assert_eq!(
        trace["buffers"][1]["values"].as_array().unwrap()[..4],
        ["0", "1", "7", "2"]
    );
    let steps = trace["steps"].as_array().unwrap();
    assert!(
        steps.iter().any(|step| step[1] != json!(u32::MAX)),
        "lanes part"
    );
    let changes: usize = steps
        .iter()
        .map(|step| step[4].as_array().unwrap().len())
        .sum();
    assert!(changes > 10);
}

#[test]
fn what_is_wrong_is_an_error_with_its_line() {
    let bad = ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k()\n{\n\tadd.s32 %r1, %r2, 1;\n\tret;\n}\n";
    let answer = ask(&json!({"do": "inspect", "ptx": bad}));
    assert_eq!(answer["ok"], false);
    assert_eq!(answer["messages"][0]["line"], 6);
    let kernel = example("vector_add");
    for request in [
        json!({}),
        json!([1]),
        json!({"do": "inspect"}),
        json!({"do": "inspect", "ptx": 7}),
        json!({"do": "inspect", "ptx": kernel, "cubin": ""}),
        json!({"do": "inspect", "cubin": "?"}),
        json!({"do": "inspect", "ptx": kernel, "options": "--frobnicate"}),
        json!({"do": "inspect", "ptx": kernel, "options": "-o file"}),
        json!({"do": "inspect", "ptx": kernel, "reschedule": 1}),
        json!({"do": "dance", "ptx": kernel}),
        json!({"do": "trace", "ptx": kernel, "launch": "u32:1"}),
        json!({"do": "trace", "ptx": kernel, "launch": "--interpret"}),
        json!({"do": "trace", "ptx": kernel, "launch": "buf:@/etc/hostname"}),
        json!({"do": "trace", "ptx": kernel, "launch": "buf:u8:999999999"}),
        json!({"do": "trace", "ptx": kernel, "warp": -1}),
    ] {
        let answer = ask(&request);
        assert_eq!(answer["ok"], false, "{request}");
        assert!(
            answer["error"].as_str().is_some_and(|it| !it.is_empty()),
            "{request}"
        );
    }
}
