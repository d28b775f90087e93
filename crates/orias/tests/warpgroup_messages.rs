//! Pipelines of warp-group products that lack something: ptxas's words, and the line, register, reason and remedy besides.

use orias::{Options, Source, Target, compile};

const FENCE: &str = "wgmma.fence.sync.aligned;\n";
const COMMIT: &str = "wgmma.commit_group.sync.aligned;\n";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;\n";
const LOOP: &str = "add.u32 t1, t1, 1;\nsetp.lt.u32 q0, t1, t0;\n@q0 bra L;\n";

/// A product of `count` accumulators, from register `first` on.
fn product(first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|at| format!("%f{at}")).collect();
    let sums = names.join(", ");
    format!(
        "wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16 {{{sums}}}, d1, d1, 1, 1, 1, 0, 0;\n",
        2 * count
    )
}

/// A kernel around `body`, which begins at line 10.
fn kernel(directives: &str, sums: usize, body: &str) -> String {
    let zeros: String = (0..sums)
        .map(|at| format!("mov.f32 %f{at}, 0f00000000; "))
        .collect();
    let stores: String = (0..sums)
        .map(|at| format!("st.global.f32 [d2+{}], %f{at};\n", 4 * at))
        .collect();
    format!(
        ".version 8.3\n.target sm_90a\n.address_size 64\n.extern .func beyond(.param .b32 x); .extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n\
         .visible .entry k(.param .u64 p, .param .u64 da, .param .u32 n) {directives}{{\n\
         .reg .f32 %f<{}>; .reg .b64 d<6>; .reg .pred q<4>; .reg .b32 t<9>;\n\
         ld.param.u64 d0, [p]; ld.param.u64 d1, [da]; ld.param.u32 t0, [n];\n\
         cvta.to.global.u64 d2, d0; mov.b32 t1, 0;\n{zeros}\n{body}{stores}ret;\n}}\n",
        sums + 1
    )
}

fn messages_of(text: &str, options: Options) -> Vec<String> {
    let options = Options {
        target: Target::parse("sm_90a").unwrap(),
        ..options
    };
    let source = Source {
        name: "k.ptx",
        text: text.as_bytes(),
    };
    let compiled = compile(&source, &options).unwrap();
    let said = compiled.diagnostics.iter();
    said.map(ToString::to_string).collect()
}

fn messages(directives: &str, sums: usize, body: &str) -> Vec<String> {
    messages_of(&kernel(directives, sums, body), Options::default())
}

#[track_caller]
fn says(said: &[String], parts: &[&str]) {
    let holds = |line: &String| parts.iter().all(|part| line.contains(part));
    assert!(said.iter().any(holds), "{parts:?} in {said:#?}");
}

#[test]
fn right_pipelines_are_left_alone() {
    let one = product(0, 4);
    let other = product(4, 4);
    let bodies = [
        format!("{FENCE}{one}{COMMIT}{WAIT}"),
        format!("L:\n{FENCE}{one}{COMMIT}{LOOP}{WAIT}"),
        format!(
            "{FENCE}{one}{COMMIT}L:\n{FENCE}{one}{COMMIT}wgmma.wait_group.sync.aligned 1;\n{LOOP}{WAIT}"
        ),
        format!(
            "{FENCE}{one}{COMMIT}{FENCE}{other}{COMMIT}wgmma.wait_group.sync.aligned 1;\nadd.f32 %f0, %f0, %f1;\n{WAIT}"
        ),
        // A move of PTX is no instruction.
        format!("{FENCE}{one}{COMMIT}mov.f32 %f4, %f0;\n{WAIT}"),
        // Nobody reads what a product that starts from zero is given.
        format!(
            "{FENCE}mov.f32 %f0, 0f3f800000;\n{}{COMMIT}{WAIT}",
            one.replace("d1, d1, 1,", "d1, d1, 0,")
        ),
    ];
    for body in bodies {
        let said = messages("", 8, &body);
        assert!(said.is_empty(), "{body}{said:#?}");
    }
}

#[test]
fn a_missing_wait_names_reader_register_and_product() {
    let body = format!(
        "{FENCE}{}{COMMIT}st.global.f32 [d2+64], %f2;\n{WAIT}",
        product(0, 4)
    );
    let said = messages("", 4, &body);
    assert_eq!(said.len(), 1, "{said:#?}");
    says(
        &said,
        &[
            "ptxas info    : (C7517) warpgroup.wait is injected in around line 13 by compiler to allow use of registers defined by GMMA in function 'k'; ",
            "line 13 reads %f2, which the product at line 11 may still write",
            "wgmma.wait_group",
        ],
    );
}

#[test]
fn a_missing_fence_names_product_register_and_writer() {
    let body = format!("{}{COMMIT}{WAIT}", product(0, 4));
    let said = messages("", 4, &body);
    assert_eq!(said.len(), 1, "{said:#?}");
    says(
        &said,
        &[
            "ptxas info    : (C7519) warpgroup.arrive is injected in around line 10 by compiler to allow use of registers in GMMA in function 'k'; ",
            "takes %f0, which no wgmma.fence covers since line 9",
        ],
    );
}

#[test]
fn a_missing_fence_names_an_operand_in_registers() {
    let left = product(0, 4).replace("d1, d1, 1, 1, 1, 0, 0", "{t2, t3, t4, t5}, d1, 1, 1, 1, 0");
    let body = format!(
        "mov.b32 t2, 1; mov.b32 t3, 1; mov.b32 t4, 1; mov.u32 t5, %laneid;\n{FENCE}{left}add.u32 t5, t5, 1;\n{left}{COMMIT}{WAIT}"
    );
    let said = messages("", 4, &body);
    assert_eq!(said.len(), 1, "{said:#?}");
    says(
        &said,
        &[
            "(C7519)",
            "line 14 takes t5, which no wgmma.fence covers since line 13",
        ],
    );
}

#[test]
fn a_wait_for_fewer_groups_than_are_read_serializes() {
    let body = format!(
        "{FENCE}{}{COMMIT}{FENCE}{}{COMMIT}wgmma.wait_group.sync.aligned 1;\nadd.f32 %f4, %f4, %f0;\n{WAIT}",
        product(0, 4),
        product(4, 4)
    );
    let said = messages("", 8, &body);
    says(&said, &["(C7517)", "around line 17", "reads %f4"]);
    says(
        &said,
        &[
            "(C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage in the function 'k'; ",
            "the product at line 14",
        ],
    );
}

#[test]
fn an_accumulator_that_is_written_in_part_serializes() {
    let one = product(0, 4);
    let body = format!("{FENCE}{one}mov.f32 %f0, 0f3f800000;\n{FENCE}{one}{COMMIT}{WAIT}");
    let said = messages("", 4, &body);
    says(
        &said,
        &[
            "(C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline stage in the function 'k'; ",
            "line 14 takes, together with registers that other instructions wrote, %f1, which the product at line 11 may still write",
        ],
    );
}

#[test]
fn a_fence_that_is_missing_where_lanes_parted_serializes() {
    let body = format!(
        "mov.u32 t2, %tid.x;\nsetp.lt.u32 q1, t2, t0;\n@q1 bra A;\n{}{COMMIT}{WAIT}A:\n",
        product(0, 4)
    );
    let said = messages("", 4, &body);
    says(
        &said,
        &[
            "(C7520) Potential Performance Loss: wgmma.mma_async instructions are serialized due to program dependence on compiler-inserted WG.AR in divergent path in the function 'k'; ",
            "line 13",
        ],
    );
}

#[test]
fn calls_in_the_midst_of_a_pipeline_serialize() {
    let call = "{ .param .b32 a; st.param.b32 [a], t0; call beyond, (a); }\n";
    let body = format!("{FENCE}{}{COMMIT}{call}{WAIT}", product(0, 4));
    let object = Options {
        relocatable: true,
        ..Options::default()
    };
    let said = messages_of(&kernel("", 4, &body), object.clone());
    says(
        &said,
        &[
            "(C7509) Potential Performance Loss: wgmma.mma_async instructions are serialized due to the presence of Extern calls in the function 'k'; ",
            "the call at line 13 comes while the product at line 11 is under way",
        ],
    );
    // Behind a call that does not come back nothing is waited for.
    let lost = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], 0; st.param.b32 [b], 0; setp.eq.u32 q1, t0, 7; @q1 call __assertfail, (a, a, b, a, a); }\n";
    let body = format!("{FENCE}{}{COMMIT}{lost}{WAIT}", product(0, 4));
    let said = messages("", 4, &body);
    assert!(said.iter().all(|line| !line.contains("(C75")), "{said:#?}");
    // Before the pipeline a call disturbs nobody.
    let body = format!("{call}{FENCE}{}{COMMIT}{WAIT}", product(0, 4));
    let said = messages_of(&kernel("", 4, &body), object);
    assert!(said.iter().all(|line| !line.contains("(C75")), "{said:#?}");
}

#[test]
fn too_few_registers_serialize() {
    let body = format!(
        "L:\n{FENCE}{}{}{COMMIT}{WAIT}{LOOP}",
        product(0, 64),
        product(64, 64)
    );
    let said = messages(".maxnreg 128 ", 128, &body);
    says(
        &said,
        &[
            "(C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'k'; the code waits before ",
            "larger limit of registers",
        ],
    );
}
