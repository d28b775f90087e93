//! `gpu latency`: how many cycles after a producer each kind of consumer sees the new value.
//!
//! Every trial is a few instructions: give a register an old value, wait until it has surely landed, let a producer write
//! a new one, and let a consumer read it `distance` cycles later. Whether the consumer computed with the old or the new
//! value shows in what it stores. The smallest distance from which on all trials see the new value is the latency of the
//! edge. Each trial runs in several contexts, since a free issue slot or an idle pipe can hide a hazard:
//!
//! - *plain*: everything before the producer has finished;
//! - *busy*: two independent instructions of the producer's kind issue right before it.
//!
//! All trials of a run are straight-line code of one kernel; it is launched with one warp and with sixteen.

use super::bare::Code;
use super::driver::Gpu;
use std::collections::BTreeMap;

/// The longest distance that is tried: beyond what any fixed-latency operation needs.
const LONGEST: usize = 40;

/// Where a producer leaves its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum File {
    /// R10 (R11 holds the upper half of a pair).
    General,
    /// P0.
    Predicate,
    /// UR10.
    Uniform,
    /// UP0.
    UniformPredicate,
}

/// An instruction that writes the register under test. `$` in the text stands for the register's number, so that the same
/// instruction can be issued on other registers to keep its pipe busy.
struct Producer {
    class: &'static str,
    text: &'static str,
    file: File,
    /// Whether the upper half of a pair is under test: consumers then read R11.
    upper: bool,
}

/// An instruction that reads the register under test and leaves a word in R20.
struct Consumer {
    class: &'static str,
    text: &'static str,
    file: File,
    /// What brings the answer to R20, if the consumer does not write there.
    then: &'static str,
    /// Which general register it reads: 13 is the upper half of a pair.
    register: u8,
}

const fn general(class: &'static str, text: &'static str) -> Producer {
    Producer {
        class,
        text,
        file: File::General,
        upper: false,
    }
}

const fn upper(class: &'static str, text: &'static str) -> Producer {
    Producer {
        class,
        text,
        file: File::General,
        upper: true,
    }
}

/// R4 to R9 hold constants, R10 to R15 are written by producers.
const PRODUCERS: &[Producer] = &[
    general("FADD", "FADD R$, R4, R5"),
    general("FMUL", "FMUL R$, R4, R5"),
    general("FFMA", "FFMA R$, R4, R5, R6"),
    general("FMNMX", "FMNMX R$, R6, R5, !PT"),
    general("FSEL", "FSEL R$, R6, R5, PT"),
    general("IADD3", "IADD3 R$, R4, R5, R6"),
    general("LOP3", "LOP3.LUT R$, R5, R6, R7, 0x69, !PT"),
    general("SHF", "SHF.R.U32.HI R$, RZ, 0x1, R5"),
    general("LEA", "LEA R$, R5, R6, 0x2"),
    general("SEL", "SEL R$, R6, R5, PT"),
    general("PRMT", "PRMT R$, R5, 0x1230, R6"),
    general("VIADD", "VIADD R$, R5, 0x7"),
    general("MOV", "MOV R$, R6"),
    general("IMAD", "IMAD R$, R5, R7, R6"),
    general("IMAD.MOV", "IMAD.MOV.U32 R$, RZ, RZ, R6"),
    general("IMAD.WIDE", "IMAD.WIDE R$, R5, R7, R8"),
    upper("IMAD.WIDE.hi", "IMAD.WIDE R$, R5, R7, R8"),
    upper("DADD.hi", "DADD R$, R8, R8"),
    general("HADD2", "HADD2 R$, R5, R6"),
    general("HADD2.F32", "HADD2.F32 R$, -RZ, R5.H0_H0"),
    general("HMNMX2", "HMNMX2 R$, R5, R6, PT"),
    general("VHMNMX", "VHMNMX R$, R5, R6, R7, PT"),
    general("HSET2", "HSET2.BF.GT.AND R$, R5, R4, PT"),
    general("HFMA2", "HFMA2 R$, R5, R6, R7"),
    general("HFMA2.MMA", "HFMA2.MMA R$, R5, R6, R7"),
    general("F2FP", "F2FP.BF16.F32.PACK_AB R$, R5, R6"),
    general("I2FP", "I2FP.F32.S32 R$, R6"),
    general("DADD", "DADD R$, R8, R8"),
    general("DFMA", "DFMA R$, R8, R8, R8"),
    Producer {
        class: "ISETP",
        text: "ISETP.NE.AND P0, PT, R5, R6, PT",
        file: File::Predicate,
        upper: false,
    },
    Producer {
        class: "FSETP",
        text: "FSETP.NEU.AND P0, PT, R5, R6, PT",
        file: File::Predicate,
        upper: false,
    },
    Producer {
        class: "R2P",
        text: "R2P PR, R6, 0x1",
        file: File::Predicate,
        upper: false,
    },
    Producer {
        class: "PLOP3",
        text: "PLOP3.LUT P0, PT, PT, PT, PT, 0x80, 0x0",
        file: File::Predicate,
        upper: false,
    },
    Producer {
        class: "LOP3.P",
        text: "LOP3.LUT P0, RZ, R5, R6, R7, 0xfe, !PT",
        file: File::Predicate,
        upper: false,
    },
    Producer {
        class: "IADD3.P",
        text: "IADD3 RZ, P0, R9, R9, RZ",
        file: File::Predicate,
        upper: false,
    },
    Producer {
        class: "UIADD3",
        text: "UIADD3 UR$, UR6, UR7, URZ",
        file: File::Uniform,
        upper: false,
    },
    Producer {
        class: "ULOP3",
        text: "ULOP3.LUT UR$, UR6, UR7, URZ, 0x3c, !UPT",
        file: File::Uniform,
        upper: false,
    },
    Producer {
        class: "USHF",
        text: "USHF.R.U32.HI UR$, URZ, 0x1, UR6",
        file: File::Uniform,
        upper: false,
    },
    Producer {
        class: "ULEA",
        text: "ULEA UR$, UR6, UR7, 0x2",
        file: File::Uniform,
        upper: false,
    },
    Producer {
        class: "UMOV",
        text: "UMOV UR$, UR7",
        file: File::Uniform,
        upper: false,
    },
    Producer {
        class: "UIMAD",
        text: "UIMAD UR$, UR6, UR7, URZ",
        file: File::Uniform,
        upper: false,
    },
    Producer {
        class: "R2UR",
        text: "R2UR UR$, R5",
        file: File::Uniform,
        upper: false,
    },
    Producer {
        class: "ULDC",
        text: "ULDC UR$, c[0x0][0x0]",
        file: File::Uniform,
        upper: false,
    },
    Producer {
        class: "UISETP",
        text: "UISETP.NE.AND UP0, UPT, UR6, UR7, UPT",
        file: File::UniformPredicate,
        upper: false,
    },
];

const fn reads(class: &'static str, text: &'static str) -> Consumer {
    Consumer {
        class,
        text,
        file: File::General,
        then: "",
        register: 10,
    }
}

const CONSUMERS: &[Consumer] = &[
    reads("FADD.a", "FADD R20, R10, R5"),
    reads("FMUL.b", "FMUL R20, R5, R10"),
    reads("FFMA.a", "FFMA R20, R10, R5, R6"),
    reads("FFMA.c", "FFMA R20, R5, R6, R10"),
    reads("FMNMX.a", "FMNMX R20, R10, RZ, !PT"),
    reads("FSEL.a", "FSEL R20, R10, R5, PT"),
    reads("IADD3.a", "IADD3 R20, R10, R5, RZ"),
    reads("IADD3.c", "IADD3 R20, R5, RZ, R10"),
    reads("LOP3.a", "LOP3.LUT R20, R10, R5, RZ, 0x3c, !PT"),
    reads("SHF.c", "SHF.R.U32.HI R20, RZ, 0x1, R10"),
    reads("LEA.a", "LEA R20, R10, R5, 0x2"),
    reads("SEL.a", "SEL R20, R10, R5, PT"),
    reads("PRMT.a", "PRMT R20, R10, 0x1230, R5"),
    reads("VIADD.a", "VIADD R20, R10, 0x7"),
    reads("MOV.b", "MOV R20, R10"),
    reads("IMAD.a", "IMAD R20, R10, R7, R5"),
    reads("IMAD.c", "IMAD R20, R5, R7, R10"),
    reads("IMAD.WIDE.a", "IMAD.WIDE R20, R10, R7, R8"),
    reads("IMAD.WIDE.c", "IMAD.WIDE R20, R5, R7, R10"),
    Consumer {
        class: "IMAD.WIDE.c.hi",
        text: "IMAD.WIDE R20, R5, R7, R12",
        file: File::General,
        then: "MOV R20, R21",
        register: 13,
    },
    reads("MUFU.b", "MUFU.RCP R20, R10"),
    reads("POPC.b", "POPC R20, R10"),
    reads("SHFL.a", "SHFL.IDX PT, R20, R10, RZ, 0x1f"),
    reads("HADD2.F32.b", "HADD2.F32 R20, -RZ, R10.H0_H0"),
    reads("HMNMX2.a", "HMNMX2 R20, R10, R5, PT"),
    reads("VHMNMX.a", "VHMNMX R20, R10, R5, RZ, PT"),
    reads("VHMNMX.c", "VHMNMX R20, RZ, R5, R10, PT"),
    reads("HSET2.a", "HSET2.BF.GT.AND R20, R10, R5, PT"),
    reads("HADD2.a", "HADD2 R20, R10, R5"),
    reads("HFMA2.a", "HFMA2 R20, R10, R5, R6"),
    reads("F2FP.a", "F2FP.BF16.F32.PACK_AB R20, R10, R5"),
    reads("I2FP.b", "I2FP.F32.S32 R20, R10"),
    reads("DADD.a", "DADD R20, R10, R8"),
    Consumer {
        class: "ISETP.a",
        text: "ISETP.EQ.AND P1, PT, R10, R4, PT",
        file: File::General,
        then: "SEL R20, R5, R6, P1",
        register: 10,
    },
    Consumer {
        class: "FSETP.a",
        text: "FSETP.EQ.AND P1, PT, R10, R4, PT",
        file: File::General,
        then: "SEL R20, R5, R6, P1",
        register: 10,
    },
    Consumer {
        class: "HSETP2.a",
        text: "HSETP2.GT.AND P1, PT, R10, R6, PT",
        file: File::General,
        then: "SEL R20, R5, R6, P1",
        register: 10,
    },
    Consumer {
        class: "guard",
        text: "@P0 MOV R20, R5",
        file: File::Predicate,
        then: "",
        register: 10,
    },
    Consumer {
        class: "SEL.p",
        text: "SEL R20, R5, R6, P0",
        file: File::Predicate,
        then: "",
        register: 10,
    },
    Consumer {
        class: "IADD3.X.carry",
        text: "IADD3.X R20, R5, R6, RZ, P0, !PT",
        file: File::Predicate,
        then: "",
        register: 10,
    },
    Consumer {
        class: "ISETP.p",
        text: "ISETP.EQ.AND P1, PT, RZ, RZ, P0",
        file: File::Predicate,
        then: "SEL R20, R5, R6, P1",
        register: 10,
    },
    Consumer {
        class: "PLOP3.p",
        text: "PLOP3.LUT P1, PT, P0, PT, PT, 0x80, 0x0",
        file: File::Predicate,
        then: "SEL R20, R5, R6, P1",
        register: 10,
    },
    Consumer {
        class: "UIADD3.a",
        text: "UIADD3 UR20, UR10, UR6, URZ",
        file: File::Uniform,
        then: "MOV R20, UR20",
        register: 10,
    },
    Consumer {
        class: "ULOP3.a",
        text: "ULOP3.LUT UR20, UR10, UR6, URZ, 0x3c, !UPT",
        file: File::Uniform,
        then: "MOV R20, UR20",
        register: 10,
    },
    Consumer {
        class: "IADD3.u",
        text: "IADD3 R20, R5, UR10, RZ",
        file: File::Uniform,
        then: "",
        register: 10,
    },
    Consumer {
        class: "MOV.u",
        text: "MOV R20, UR10",
        file: File::Uniform,
        then: "",
        register: 10,
    },
    Consumer {
        class: "FADD.u",
        text: "FADD R20, R5, UR10",
        file: File::Uniform,
        then: "",
        register: 10,
    },
    Consumer {
        class: "IMAD.u",
        text: "IMAD R20, R5, UR10, R6",
        file: File::Uniform,
        then: "",
        register: 10,
    },
    Consumer {
        class: "USEL.p",
        text: "USEL UR20, UR6, UR7, UP0",
        file: File::UniformPredicate,
        then: "MOV R20, UR20",
        register: 10,
    },
    Consumer {
        class: "@UP",
        text: "@UP0 UMOV UR20, UR6",
        file: File::UniformPredicate,
        then: "MOV R20, UR20",
        register: 10,
    },
];

/// What is done before each trial so that the register under test holds the old value.
fn old_value(file: File) -> &'static [&'static str] {
    match file {
        File::General => &["MOV R10, R4", "MOV R11, R4", "MOV R12, R4", "MOV R13, R4"],
        File::Predicate => &["ISETP.NE.AND P0, PT, RZ, RZ, PT", "MOV R20, R6"],
        File::Uniform => &["UMOV UR10, UR8"],
        File::UniformPredicate => &["UISETP.NE.AND UP0, UPT, URZ, URZ, UPT", "UMOV UR20, UR7"],
    }
}

/// A kernel of trials. Every instruction waits for barriers 0 and 1.
#[derive(Default)]
struct Trials {
    code: Code,
}

impl Trials {
    /// Appends an instruction that stalls as said. `barriers` names the read and the write barrier it sets.
    fn push(&mut self, text: &str, stall: usize, barriers: &str) -> Result<(), String> {
        let control = format!("B01----:{barriers}:-:S{stall:02}");
        self.code.push(&control, text).map(|_| ())
    }

    fn settled(&mut self, text: &str) -> Result<(), String> {
        self.push(text, 15, "R-:W-")
    }

    /// Waits long enough for any fixed-latency operation.
    fn drain(&mut self) -> Result<(), String> {
        for _ in 0..3 {
            self.settled("NOP")?;
        }
        Ok(())
    }
}

/// One producer, one consumer, one context.
struct Edge {
    producer: usize,
    consumer: usize,
    busy: bool,
}

fn edges() -> Vec<Edge> {
    let mut edges = Vec::new();
    for (producer, p) in PRODUCERS.iter().enumerate() {
        for (consumer, c) in CONSUMERS.iter().enumerate() {
            // A pair cannot start at an odd register.
            let wide = |text: &str| text.starts_with('D') || text.starts_with("IMAD.WIDE");
            let reads_pair = c.class.starts_with('D') || c.class.starts_with("IMAD.WIDE.c");
            let pair = p.upper && reads_pair || c.register == 13 && wide(p.text);
            if p.file == c.file && !pair {
                edges.extend([false, true].map(|busy| Edge {
                    producer,
                    consumer,
                    busy,
                }));
            }
        }
    }
    edges
}

/// The trial of an edge at a distance; distance 0 leaves the producer out and shows the old value's answer.
fn trial(code: &mut Trials, edge: &Edge, distance: usize, slot: usize) -> Result<(), String> {
    let (producer, consumer) = (&PRODUCERS[edge.producer], &CONSUMERS[edge.consumer]);
    for text in old_value(producer.file) {
        code.settled(text)?;
    }
    code.drain()?;
    if edge.busy {
        for other in ["14", "16"] {
            let text = producer.text.replace('$', other).replace("P0,", "P2,");
            code.push(&text, 1, "R-:W-")?;
        }
    }
    if distance > 0 {
        let first = distance.min(15);
        let register = consumer.register.to_string();
        code.push(&producer.text.replace('$', &register), first, "R-:W-")?;
        let mut left = distance - first;
        while left > 0 {
            let stall = left.min(15);
            code.push("NOP", stall, "R-:W-")?;
            left -= stall;
        }
    }
    let register = if producer.upper { "R11" } else { "R10" };
    // What takes a variable time is waited for.
    let barriers = match consumer.class {
        "MUFU.b" | "POPC.b" | "SHFL.a" => "R-:W0",
        _ => "R-:W-",
    };
    code.push(&consumer.text.replace("R10", register), 15, barriers)?;
    code.drain()?;
    if !consumer.then.is_empty() {
        code.settled(consumer.then)?;
        code.drain()?;
    }
    code.push(
        &format!("STG.E desc[UR4][R2.64+{:#x}], R20", slot * 4),
        15,
        "R1:W-",
    )
}

/// The whole kernel: constants, every trial, exit.
fn kernel(edges: &[Edge]) -> Result<Code, String> {
    let mut code = Trials::default();
    code.push("LDC.64 R2, c[0x0][0x210]", 15, "R1:W0")?;
    code.push("ULDC.64 UR4, c[0x0][0x208]", 15, "R-:W-")?;
    for (register, value) in [
        (4, 0x4000_0000u32),
        (5, 0x4040_1234),
        (6, 0x40a0_4321),
        (7, 0x40e0_0007),
        (8, 0x1234_5678),
        (9, 0xc010_2030),
    ] {
        code.settled(&format!("MOV R{register}, {value:#x}"))?;
    }
    for (register, value) in [(6, 0x3f80_1234u32), (7, 0x0010_4321), (8, 0x4000_0000)] {
        code.settled(&format!("UMOV UR{register}, {value:#x}"))?;
    }
    code.drain()?;
    let mut slot = 0;
    for edge in edges {
        for distance in 0..=LONGEST {
            trial(&mut code, edge, distance, slot)?;
            slot += 1;
        }
    }
    code.settled("EXIT")?;
    Ok(code.code)
}

/// `gpu latency`: measures every edge and prints the largest latency over the contexts.
pub fn measure() -> Result<(), String> {
    let edges = edges();
    let code = kernel(&edges)?;
    let cubin = code.cubin("trials", None)?;
    let image = cubin.write().map_err(|error| error.to_string())?;
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let driver = |error: super::driver::DriverError| error.to_string();
    let module = gpu.load(&image).map_err(driver)?;
    let kernel = module.kernel("trials", 0).map_err(driver)?;
    let slots = edges.len() * (LONGEST + 1);
    let mut latencies: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut blind = Vec::new();
    for threads in [32, 512] {
        let answers = gpu.buffer(&vec![0xa5; slots * 4]).map_err(driver)?;
        kernel
            .launch(
                [1, 1, 1],
                [threads, 1, 1],
                &[answers.address().to_le_bytes().to_vec()],
            )
            .map_err(driver)?;
        let bytes = answers.read().map_err(driver)?;
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        for (edge, trials) in edges.iter().zip(words.chunks_exact(LONGEST + 1)) {
            let (old, new) = (trials[0], trials[LONGEST]);
            let key = (edge.producer, edge.consumer);
            if old == new {
                blind.push(key);
                continue;
            }
            let latency = (1..=LONGEST)
                .rev()
                .find(|distance| trials[*distance] != new)
                .map_or(1, |last| last + 1);
            let entry = latencies.entry(key).or_default();
            *entry = (*entry).max(latency);
        }
    }
    println!(
        "{} instructions, {} edges",
        code.words.len(),
        latencies.len()
    );
    for ((producer, consumer), latency) in &latencies {
        println!(
            "{} -> {}: {latency}",
            PRODUCERS[*producer].class, CONSUMERS[*consumer].class
        );
    }
    blind.dedup();
    for (producer, consumer) in blind {
        println!(
            "{} -> {}: old and new value give the same answer",
            PRODUCERS[producer].class, CONSUMERS[consumer].class
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_machine::Machine;
    use orias_machine::timing::{Arrival, Place, Result as Written, Use};
    use orias_sass::text::parse_instruction;
    use orias_sass::{Instruction, RegisterAccess, RegisterClass, Target};

    const RECORDED: &str = include_str!("../../data/latencies-sm90.txt");

    #[test]
    fn every_trial_assembles() {
        kernel(&edges()).unwrap();
    }

    fn instruction(text: &str) -> Instruction {
        let line = format!("{} ;", text.replace('$', "10"));
        let parsed = parse_instruction(&line, 0, Target::DEFAULT);
        parsed.unwrap_or_else(|e| panic!("{text}: {e}")).instruction
    }

    /// The access of register `index` of the file, which may be in the middle of an operand.
    fn access(
        instruction: &Instruction,
        file: File,
        index: u8,
        writes: bool,
    ) -> Option<(RegisterAccess, u8)> {
        let class = match file {
            File::General => RegisterClass::R,
            File::Predicate => RegisterClass::P,
            File::Uniform => RegisterClass::UR,
            File::UniformPredicate => RegisterClass::UP,
        };
        let found = (instruction.accesses().into_iter()).find(|access| {
            let first = access.register.index;
            (if writes { access.writes } else { access.reads })
                && access.register.class == class
                && (first..first + access.count).contains(&index)
        })?;
        Some((found, index - found.register.index))
    }

    /// What a table says of an edge; `None` if the result has no fixed latency.
    fn latency(machine: &Machine, producer: &Producer, consumer: &Consumer) -> Option<usize> {
        let (made, read) = (instruction(producer.text), instruction(consumer.text));
        let (first, second) = match (producer.file, producer.upper) {
            (File::General, true) => (11, consumer.register),
            (File::General, false) => (10, consumer.register),
            (File::Uniform, _) => (10, 10),
            _ => (0, 0),
        };
        let (written, upper) = access(&made, producer.file, first, true)?;
        let (used, offset) = access(&read, consumer.file, second, false)?;
        let result = machine.arrival(&Written {
            op: made.op(),
            mods: made.mods(),
            place: Place::of(&made, &written),
            class: written.register.class,
            offset: upper,
        });
        let Some(Arrival::Fixed(result)) = result else {
            return None;
        };
        let used = machine.use_group(&Use {
            op: read.op(),
            mods: read.mods(),
            place: Place::of(&read, &used),
            class: used.register.class,
            offset,
        })?;
        Some(usize::from(machine.latency(result, used).cycles))
    }

    #[test]
    fn no_table_says_less_than_the_chip_showed() {
        let mut compared = 0;
        let mut short = Vec::new();
        for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
            let (edge, cycles) = line.split_once(": ").unwrap();
            let (from, to) = edge.split_once(" -> ").unwrap();
            let producer = PRODUCERS.iter().find(|one| one.class == from).unwrap();
            let consumer = CONSUMERS.iter().find(|one| one.class == to).unwrap();
            let measured: usize = cycles.parse().unwrap();
            for machine in [
                Machine::of(Target::DEFAULT),
                Machine::judging(Target::DEFAULT),
            ] {
                if let Some(said) = latency(machine, producer, consumer) {
                    compared += 1;
                    if said < measured {
                        short.push(format!("{line}, and a table says {said}"));
                    }
                }
            }
        }
        assert!(short.is_empty(), "{}", short.join("\n"));
        assert!(compared > 2000, "{compared} edges compared");
    }
}
