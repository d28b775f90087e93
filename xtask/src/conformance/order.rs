//! Fences where ptxas has them, and none where it has none: `conformance order [O0|O3]`.
//!
//! Every order, scope and space of loads, stores, atomics and reductions, every `membar` and `fence`, the cluster's barrier and mbarriers that release or acquire is a kernel of its own, compiled by
//! ptxas and here at the same level. Compared is the sequence of what orders memory (MEMBAR, ERRBAR, CGAERRBAR, CCTL, FENCE, barriers) and of accesses,
//! with their modifiers. `fence.proxy.alias` is known to differ: ptxas asks a word of the launch which of two fences it needs.

use crate::gpu::assembler::Assembler;
use orias_cubin::Cubin;
use orias_sass::{Mnemonic, Target, decode};
use std::collections::BTreeMap;
use std::fmt::Write;

const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];

/// Spaces and a register that holds an address there.
const SPACES: [(&str, &str); 4] = [
    (".global", "%rd2"),
    (".shared::cta", "%r1"),
    (".shared::cluster", "%r1"),
    ("", "%rd2"),
];

/// What differs, and why it may.
const KNOWN: [&str; 2] = ["fence.proxy.alias;", "membar.proxy.alias;"];

/// Two fences with nothing between: ptxas keeps both, OptimizeSyncInstructions (71) the first.
const REPEATED: [&str; 2] = [
    "fence.sc.gpu; fence.sc.gpu;",
    "fence.acq_rel.gpu; st.release.gpu.global.u32 [%rd2], %r2;",
];

pub fn run(args: &[String]) -> Result<(), String> {
    let levels = match args.first().map(String::as_str) {
        None => vec!["O0", "O3"],
        Some(level) => vec![level],
    };
    let forms = forms();
    let text = module(&forms);
    let mut wrong = 0;
    for level in levels {
        let theirs = sequences(&Assembler::parse(&format!("ptxas-{level}"))?.assemble(&text)?)?;
        let ours = sequences(&Assembler::parse(&format!("orias-{level}"))?.assemble(&text)?)?;
        let (mut equal, mut known) = (0, 0);
        for (number, form) in forms.iter().enumerate() {
            let name = format!("k{number}");
            let (a, b) = (theirs.get(&name), ours.get(&name));
            if a == b && a.is_some() {
                equal += 1;
            } else if KNOWN.contains(&form.as_str())
                || (REPEATED.contains(&form.as_str()) && is_part(b, a))
            {
                known += 1;
            } else {
                wrong += 1;
                println!("{level} {form}\n    ptxas {a:?}\n    ours  {b:?}");
            }
        }
        println!(
            "{level}: {equal} of {} forms equal, {known} known to differ",
            forms.len()
        );
    }
    match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} forms have other fences than ptxas's")),
    }
}

/// Whether all instructions of one sequence stand in the other, in their order.
fn is_part(ours: Option<&Vec<String>>, theirs: Option<&Vec<String>>) -> bool {
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return false;
    };
    let mut rest = theirs.iter();
    ours.iter().all(|wanted| rest.any(|it| it == wanted))
}

fn forms() -> Vec<String> {
    let mut forms = Vec::new();
    let scoped = |orders: &[&str]| -> Vec<String> {
        let pairs = orders
            .iter()
            .flat_map(|order| SCOPES.map(|scope| format!(".{order}.{scope}")));
        pairs.collect()
    };
    for (space, address) in SPACES {
        let device = matches!(space, ".global" | "");
        let plain = |orders: Vec<String>| {
            let mut all: Vec<String> = ["", ".weak", ".volatile"].map(str::to_owned).to_vec();
            all.extend(orders);
            if device {
                all.push(".mmio.relaxed.sys".to_owned());
            }
            all
        };
        for order in plain(scoped(&["relaxed", "acquire"])) {
            forms.push(format!(
                "ld{order}{space}.u32 %r5, [{address}]; st.global.u32 [%rd1], %r5;"
            ));
        }
        for order in plain(scoped(&["relaxed", "release"])) {
            forms.push(format!("st{order}{space}.u32 [{address}], %r2;"));
        }
        let mut orders = scoped(&["relaxed", "acquire", "release", "acq_rel"]);
        orders.extend(
            [
                "", ".relaxed", ".acquire", ".release", ".acq_rel", ".cta", ".sys",
            ]
            .map(str::to_owned),
        );
        for order in orders {
            for update in ["exch.b32 %r5, [A], %r2", "cas.b32 %r5, [A], %r2, %r3"] {
                let update = update.replace('A', address);
                forms.push(format!(
                    "atom{order}{space}.{update}; st.global.u32 [%rd1], %r5;"
                ));
            }
        }
        let mut orders = scoped(&["relaxed", "release"]);
        orders.extend(["", ".relaxed", ".release", ".sys"].map(str::to_owned));
        for order in orders {
            forms.push(format!("red{order}{space}.inc.u32 [{address}], %r3;"));
        }
    }
    for order in ["", ".sc", ".acq_rel", ".acquire", ".release"] {
        forms.extend(SCOPES.map(|scope| format!("fence{order}.{scope};")));
    }
    forms.extend(KNOWN.map(str::to_owned));
    let others = [
        "membar.cta;",
        "membar.gl;",
        "membar.sys;",
        "fence.proxy.async;",
        "fence.proxy.async.global;",
        "fence.proxy.async.shared::cta;",
        "fence.proxy.async.shared::cluster;",
        "fence.mbarrier_init.release.cluster;",
        "fence.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.release.sync_restrict::shared::cta.cluster;",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
        "barrier.cluster.arrive.aligned;",
        "barrier.cluster.arrive.relaxed.aligned;",
        "barrier.cluster.arrive.release.aligned;",
        "barrier.cluster.wait.aligned;",
        "barrier.cluster.wait.acquire.aligned;",
        "mbarrier.arrive.shared.b64 _, [%r1];",
        "mbarrier.arrive.relaxed.cluster.shared.b64 _, [%r1];",
        "mbarrier.arrive.release.cluster.shared.b64 _, [%r1];",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1], %r2;",
        "mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], %r2;",
        "mbarrier.test_wait.parity.acquire.cta.shared.b64 %p1, [%r1], %r2; @%p1 st.global.u32 [%rd1], %r2;",
        "mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p1, [%r1], %r2; @%p1 st.global.u32 [%rd1], %r2;",
        "mbarrier.try_wait.parity.relaxed.cluster.shared.b64 %p1, [%r1], %r2; @%p1 st.global.u32 [%rd1], %r2;",
        "bar.sync 0; mbarrier.init.shared.b64 [%r1], 4;",
        "st.shared.u32 [%r2], %r3; mbarrier.init.shared.b64 [%r1], 4;",
        "fence.sc.gpu; fence.sc.gpu;",
        "fence.acq_rel.gpu; st.release.gpu.global.u32 [%rd2], %r2;",
        "ld.acquire.gpu.global.u32 %r5, [%rd2]; fence.acq_rel.gpu; st.global.u32 [%rd1], %r5;",
        "fence.acq_rel.gpu; bar.sync 0;",
    ];
    forms.extend(others.map(str::to_owned));
    forms
}

fn module(forms: &[String]) -> String {
    let mut text = String::from(".version 9.0\n.target sm_90a\n.address_size 64\n");
    for (number, form) in forms.iter().enumerate() {
        let _ = write!(
            text,
            ".visible .entry k{number}(.param .u64 o, .param .u32 a, .param .u32 b, .param .u64 g) .explicitcluster .reqnctapercluster 2, 1, 1 {{\n\
             .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n\
             ld.param.u64 %rd1, [o]; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; ld.param.u64 %rd2, [g]; mov.u32 %r3, %tid.x;\n\
             {form}\nret;\n}}\n"
        );
    }
    text
}

/// Mnemonics of what orders memory, and of accesses to it.
const WATCHED: [Mnemonic; 20] = [
    Mnemonic::MEMBAR,
    Mnemonic::ERRBAR,
    Mnemonic::CGAERRBAR,
    Mnemonic::CCTL,
    Mnemonic::FENCE,
    Mnemonic::BAR,
    Mnemonic::UCGABAR_ARV,
    Mnemonic::UCGABAR_WAIT,
    Mnemonic::DEPBAR,
    Mnemonic::LDG,
    Mnemonic::LD,
    Mnemonic::LDS,
    Mnemonic::STG,
    Mnemonic::ST,
    Mnemonic::STS,
    Mnemonic::ATOMG,
    Mnemonic::ATOM,
    Mnemonic::ATOMS,
    Mnemonic::REDG,
    Mnemonic::SYNCS,
];

/// For each kernel, what orders and accesses memory, with modifiers.
fn sequences(cubin: &[u8]) -> Result<BTreeMap<String, Vec<String>>, String> {
    let cubin = Cubin::read(cubin).map_err(|error| error.to_string())?;
    let mut sequences = BTreeMap::new();
    for function in cubin.functions() {
        let mut sequence = Vec::new();
        for word in function.code.chunks_exact(16) {
            let word = word.try_into().map_or(0, u128::from_le_bytes);
            let Ok(instruction) = decode(word, Target::Sm90a) else {
                continue;
            };
            let row = instruction.op().row();
            if !WATCHED.contains(&row.mnemonic) {
                continue;
            }
            let text = orias_sass::text::print_instruction(&instruction, 0);
            // Loads that never run stand before some fences.
            if text.starts_with("@!PT") {
                continue;
            }
            let words = text.split_whitespace().find(|word| !word.starts_with('@'));
            let name = words.unwrap_or_default();
            sequence.push(name.trim_end_matches(';').to_owned());
        }
        sequences.insert(function.name.to_owned(), sequence);
    }
    Ok(sequences)
}
