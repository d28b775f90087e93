//! Which operands ptxas 13.0.88 takes and which it refuses, one statement at a time.

use orias_ptx::Options;

/// All messages for a statement in a kernel with registers of every type, empty when it is accepted.
fn messages(statement: &str, architecture: &str) -> String {
    let mut source = ".version 9.0\n.target sm_90a\n.address_size 64\n\
        .global .align 128 .b8 gvar[128];\n.shared .align 128 .b8 svar[128];\n.const .align 128 .b8 cvar[128];\n\
        .visible .entry kernel(.param .b64 in64)\n{\n.reg .v2 .b32 %v2;\n.reg .pred %p<4>;\n"
        .to_owned();
    for ty in [
        "b8", "b16", "b32", "u32", "s32", "f32", "f16x2", "b64", "u64", "f64",
    ] {
        source.push_str(&format!(".reg .{ty} %{ty}_<8>;\n"));
    }
    source.push_str(statement);
    source.push_str("\nret;\n}\n");
    let options = Options::for_architecture(architecture).expect("a known architecture");
    let (module, mut diagnostics) = orias_ptx::parse(source.as_bytes());
    diagnostics.append(orias_ptx::check(&module, &options));
    if diagnostics.has_errors() {
        diagnostics.to_lines("statement", source.as_bytes())
    } else {
        String::new()
    }
}

fn accepted(statements: &[&str]) {
    for statement in statements {
        assert_eq!(messages(statement, "compute_90a"), "", "{statement}");
    }
}

fn refused(statements: &[&str]) {
    for statement in statements {
        assert_ne!(messages(statement, "compute_90a"), "", "{statement}");
    }
}

#[test]
fn an_error_in_a_vector_does_not_spoil_the_statements_after_it() {
    for wrong in [
        "red.add.v2.f32 [1.0], {%f32_1, %f32_2};",
        "mov.v2.b32 {%b32_1, -%b32_2}, %v2;",
        "mov.v2.b32 {%b32_1, {%b32_2}}, %v2;",
    ] {
        let found = messages(
            &format!("{wrong}\nadd.s32 %b32_1, %b32_2, 1;\n{{\nadd.s32 %b32_1, %b32_2, 1;\n}}"),
            "compute_90a",
        );
        assert_eq!(found.matches("; error").count(), 1, "{wrong}\n{found}");
    }
}

#[test]
fn masks_and_states_are_integers_though_the_opcode_says_bits() {
    accepted(&[
        "vote.sync.all.pred %p1, %p2, %b32_1;",
        "dp4a.s32.s32 %s32_1, %b32_1, %f16x2_1, %u32_1;",
        "mbarrier.pending_count.b64 %b32_1, %u64_1;",
    ]);
    refused(&[
        "vote.sync.all.pred %p1, %p2, %f32_1;",
        "dp4a.s32.s32 %f32_1, %b32_1, %b32_2, %b32_3;",
        "mbarrier.pending_count.b64 %b32_1, %f64_1;",
        "ld.global.L2::cache_hint.b32 %b32_1, [%b64_1], %f64_1;",
    ]);
}

#[test]
fn constants_are_in_the_range_the_instruction_has() {
    accepted(&[
        "bfe.u32 %b32_1, %b32_2, 255, 0;",
        "bar.sync 1, -32;",
        "cp.async.ca.shared.global [%b32_1], [%b64_1], 8, 8;",
        "cp.async.bulk.prefetch.L2.global [%b64_1], 1048560;",
        "tensormap.replace.tile.elemtype.b1024.b32 [%b64_1], 12;",
    ]);
    refused(&[
        "bfe.u32 %b32_1, %b32_2, 256, 0;",
        "bar.sync 1, -31;",
        "cp.async.ca.shared.global [%b32_1], [%b64_1], 8, 9;",
        "cp.async.bulk.prefetch.L2.global [%b64_1], 1048576;",
        "tensormap.replace.tile.elemtype.b1024.b32 [%b64_1], 13;",
    ]);
}

#[test]
fn a_variable_is_in_the_space_that_the_address_is_in() {
    accepted(&[
        "cvta.global.u64 %b64_1, gvar;",
        "mapa.shared::cluster.u32 %b32_1, svar, 1;",
        "mbarrier.inval.b64 [svar];",
        "cp.async.bulk.prefetch.tensor.1d.L2.global [gvar, {%s32_1}];",
        "fence.proxy.tensormap::generic.acquire.cta [cvar], 128;",
    ]);
    refused(&[
        "cvta.global.u64 %b64_1, svar;",
        "mapa.shared::cluster.u32 %b32_1, gvar, 1;",
        "mbarrier.inval.b64 [gvar];",
        "cp.async.bulk.prefetch.tensor.1d.L2.global [svar, {%s32_1}];",
        "cvta.global.u64 %b64_1, %clock64;",
    ]);
}

#[test]
fn elements_of_a_vector_go_together() {
    accepted(&[
        "atom.global.add.v2.f32 {%f32_0, %f32_1}, [%b64_1], {%laneid, %f32_2};",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%f64_0, _}, {31}, {%f64_1}, {%f64_2, %f64_3};",
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f32_0, %f32_1, %f32_2, %f32_3}, \
         {%b32_0, %b32_1}, {%tid.x}, {%laneid, %f32_1, %f32_2, %f32_3};",
    ]);
    refused(&[
        "mov.v2.b32 {%b32_1, %b32_2}, {%v2, %b32_3};",
        "mov.v2.b32 {%b32_1, %b32_2}, {gvar, %b32_3};",
        "st.global.v2.b16 [%b64_1], {%b16_1, %clock64};",
        "mma.sync.aligned.m16n8k16.row.col.f16.e4m3.e4m3.f16 {%b32_0, %b32_1}, {%b32_2, %b32_3}, {%b32_4}, \
         {%b32_5, %u32_1};",
        "tex.grad.1d.v4.u32.s32 {%u32_0, %u32_1, %u32_2, %u32_3}, [%b64_0, %s32_0], {%u32_4}, {%f32_1};",
    ]);
}

#[test]
fn coordinates_without_braces_are_registers_and_an_array_index_is_an_integer() {
    accepted(&[
        "tex.1d.v4.u32.s32 {%u32_0, %u32_1, %u32_2, %u32_3}, [%b64_0, %s32_0];",
        "tex.a1d.v4.u32.f32 {%u32_0, %u32_1, %u32_2, %u32_3}, [%b64_0, {%b32_0, %f32_0}];",
        "tex.cube.v4.u32.f32 {%u32_0, %u32_1, %u32_2, %u32_3}, [%b64_0, {%f32_0, %f32_1, %f32_2, %f32_3}], %s32_0;",
    ]);
    refused(&[
        "tex.1d.v4.u32.s32 {%u32_0, %u32_1, %u32_2, %u32_3}, [%b64_0, 5];",
        "tex.a1d.v4.u32.f32 {%u32_0, %u32_1, %u32_2, %u32_3}, [%b64_0, {%f32_0, %f32_1}];",
    ]);
}

#[test]
fn a_real_target_has_no_generic_or_global_addresses_of_32_bits() {
    for statement in [
        "cvta.to.global.u32 %b32_1, %b32_2;",
        "mov.b32 %b32_1, gvar;",
        "ld.global.b32 %b32_1, [%b32_2];",
        "multimem.ld_reduce.global.add.u32 %b32_1, [%b32_2];",
    ] {
        assert_eq!(messages(statement, "compute_90a"), "", "{statement}");
        assert!(
            messages(statement, "sm_90a").contains("has 64 bits"),
            "{statement}"
        );
    }
    for statement in [
        "mov.b32 %b32_1, svar;",
        "ld.shared.b32 %b32_1, [%b32_2];",
        "ld.global.b32 %b32_1, [%b16_1];",
    ] {
        assert_eq!(messages(statement, "sm_90a"), "", "{statement}");
    }
}
