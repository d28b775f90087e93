//! Litmus tests: what a few threads do to a few places, in every way of ordering it.

use std::fmt::Write as _;

/// How strong an access is: the words behind its name; empty for a weak one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// `relaxed`, `acquire`, `release`, `acq_rel`, or nothing.
    pub order: &'static str,
    /// `cta`, `cluster`, `gpu`.
    pub scope: &'static str,
}

impl Words {
    pub const WEAK: Self = Self {
        order: "",
        scope: "",
    };

    fn text(self) -> String {
        match self.order {
            "" => String::new(),
            order => format!(".{order}.{}", self.scope),
        }
    }
}

/// What is stored: a constant, plus what a register holds, or as if it depended on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Constant(u32),
    /// The register plus the constant.
    Sum(usize, u32),
    /// The constant, computed from the register.
    After(usize, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Store(usize, Stored, Words),
    Load(usize, usize, Words),
    /// A load whose address is computed from a register.
    LoadAfter(usize, usize, usize, Words),
    /// A store whose address is computed from a register.
    StoreAfter(usize, usize, u32, Words),
    /// Adds, with the old value to a register.
    Add(usize, u32, usize, Words),
    Exchange(usize, u32, usize, Words),
    /// Adds without a result.
    Reduce(usize, u32, Words),
    Fence(&'static str, &'static str),
    /// `bar.sync 0` of all threads of the CTA.
    Barrier,
    /// A branch that depends on a register.
    Branch(usize),
}

/// A test.
#[derive(Clone, Debug)]
pub struct Litmus {
    pub name: String,
    pub threads: Vec<Vec<Act>>,
    /// Threads of each CTA.
    pub block: u32,
    /// Whether the CTAs are a cluster.
    pub cluster: bool,
}

pub const PLACES: usize = 3;
pub const REGISTERS: usize = 8;

impl Litmus {
    pub fn cta(&self, thread: usize) -> usize {
        thread / self.block as usize
    }

    pub fn grid(&self) -> u32 {
        self.threads.len() as u32 / self.block
    }

    /// Whether a scope, said by one thread, includes another.
    pub fn includes(&self, scope: &str, a: usize, b: usize) -> bool {
        match scope {
            "cta" => self.cta(a) == self.cta(b),
            "cluster" => self.cluster || self.cta(a) == self.cta(b),
            _ => true,
        }
    }

    /// The kernel `k(places, results)`: each register is stored to the results by the thread that has it.
    pub fn ptx(&self) -> String {
        let mut text = ".version 8.6\n.target sm_90\n.address_size 64\n\n.visible .entry k(.param .u64 places, .param .u64 results)\n".to_owned();
        if self.cluster {
            let _ = writeln!(
                text,
                "    .explicitcluster .reqnctapercluster {}, 1, 1",
                self.grid()
            );
        }
        text += "{\n    .reg .pred %p;\n    .reg .b32 %n, %t, %a, %v<8>;\n    .reg .b64 %x, %o, %b, %w;\n";
        text += "    ld.param.u64 %x, [places];\n    ld.param.u64 %o, [results];\n";
        let _ = writeln!(
            text,
            "    mov.u32 %n, %ctaid.x;\n    mov.u32 %t, %tid.x;\n    mad.lo.u32 %n, %n, {}, %t;",
            self.block
        );
        for (number, acts) in self.threads.iter().enumerate() {
            let _ = writeln!(
                text,
                "    setp.ne.u32 %p, %n, {number};\n    @%p bra NEXT{number};"
            );
            for (at, act) in acts.iter().enumerate() {
                text += &act_text(*act, &format!("{number}_{at}"));
            }
            for act in acts {
                if let Act::Load(_, register, _)
                | Act::LoadAfter(_, register, _, _)
                | Act::Add(_, _, register, _)
                | Act::Exchange(_, _, register, _) = act
                {
                    let _ = writeln!(
                        text,
                        "    st.global.u32 [%o+{}], %v{register};",
                        4 * register
                    );
                }
            }
            let _ = writeln!(text, "    ret;\nNEXT{number}:");
        }
        text + "    ret;\n}\n"
    }
}

fn act_text(act: Act, label: &str) -> String {
    let at = |place: usize| format!("[%x+{}]", 4 * place);
    match act {
        Act::Store(place, stored, words) => {
            let (before, value) = match stored {
                Stored::Constant(value) => (String::new(), value.to_string()),
                Stored::Sum(register, value) => (
                    format!("    add.u32 %a, %v{register}, {value};\n"),
                    "%a".to_owned(),
                ),
                Stored::After(register, value) => (
                    format!("    and.b32 %a, %v{register}, 0;\n    add.u32 %a, %a, {value};\n"),
                    "%a".to_owned(),
                ),
            };
            format!(
                "{before}    st{}.global.u32 {}, {value};\n",
                words.text(),
                at(place)
            )
        }
        Act::Load(place, register, words) => format!(
            "    ld{}.global.u32 %v{register}, {};\n",
            words.text(),
            at(place)
        ),
        Act::LoadAfter(place, register, after, words) => format!(
            "    and.b32 %a, %v{after}, 0;\n    cvt.u64.u32 %w, %a;\n    add.u64 %b, %x, %w;\n    ld{}.global.u32 %v{register}, [%b+{}];\n",
            words.text(),
            4 * place
        ),
        Act::StoreAfter(place, after, value, words) => format!(
            "    and.b32 %a, %v{after}, 0;\n    cvt.u64.u32 %w, %a;\n    add.u64 %b, %x, %w;\n    st{}.global.u32 [%b+{}], {value};\n",
            words.text(),
            4 * place
        ),
        Act::Add(place, value, register, words) => format!(
            "    atom{}.global.add.u32 %v{register}, {}, {value};\n",
            words.text(),
            at(place)
        ),
        Act::Exchange(place, value, register, words) => format!(
            "    atom{}.global.exch.b32 %v{register}, {}, {value};\n",
            words.text(),
            at(place)
        ),
        Act::Reduce(place, value, words) => format!(
            "    red{}.global.add.u32 {}, {value};\n",
            words.text(),
            at(place)
        ),
        Act::Fence(order, scope) => format!("    fence.{order}.{scope};\n"),
        Act::Barrier => "    bar.sync 0;\n".to_owned(),
        Act::Branch(register) => format!(
            "    setp.eq.u32 %p, %v{register}, 77;\n    @%p bra SKIP{label};\nSKIP{label}:\n"
        ),
    }
}

/// What a shape says of an access: which order it has in the way `access`.
#[derive(Clone, Copy)]
enum Part {
    /// A store of a constant, which releases or not.
    W(usize, u32, bool),
    /// A load, which acquires or not.
    R(usize, usize, bool),
    /// Where a fence goes.
    F,
}

use Part::{F, R, W};

/// Names, and what each thread does.
fn skeletons() -> Vec<(&'static str, Vec<Vec<Part>>)> {
    vec![
        (
            "MP",
            vec![
                vec![W(0, 1, false), F, W(1, 1, true)],
                vec![R(1, 0, true), F, R(0, 1, false)],
            ],
        ),
        (
            "SB",
            vec![
                vec![W(0, 1, true), F, R(1, 0, true)],
                vec![W(1, 1, true), F, R(0, 1, true)],
            ],
        ),
        (
            "LB",
            vec![
                vec![R(0, 0, true), F, W(1, 1, true)],
                vec![R(1, 1, true), F, W(0, 1, true)],
            ],
        ),
        (
            "R",
            vec![
                vec![W(0, 1, true), F, W(1, 1, true)],
                vec![W(1, 2, true), F, R(0, 0, true)],
            ],
        ),
        (
            "S",
            vec![
                vec![W(0, 2, false), F, W(1, 1, true)],
                vec![R(1, 0, true), F, W(0, 1, false)],
            ],
        ),
        (
            "2+2W",
            vec![
                vec![W(0, 1, true), F, W(1, 2, true)],
                vec![W(1, 1, true), F, W(0, 2, true)],
            ],
        ),
        (
            "CoRR",
            vec![vec![W(0, 1, true)], vec![R(0, 0, true), F, R(0, 1, true)]],
        ),
        (
            "CoRR2",
            vec![
                vec![W(0, 1, true)],
                vec![W(0, 2, true)],
                vec![R(0, 0, true), F, R(0, 1, true)],
            ],
        ),
        ("CoWW", vec![vec![W(0, 1, true), F, W(0, 2, true)]]),
        (
            "CoWR",
            vec![vec![W(0, 1, true), F, R(0, 0, true)], vec![W(0, 2, true)]],
        ),
        (
            "CoRW",
            vec![vec![R(0, 0, true), F, W(0, 1, true)], vec![W(0, 2, true)]],
        ),
        (
            "WRC",
            vec![
                vec![W(0, 1, true)],
                vec![R(0, 0, true), F, W(1, 1, true)],
                vec![R(1, 1, true), F, R(0, 2, false)],
            ],
        ),
        (
            "WWC",
            vec![
                vec![W(0, 2, true)],
                vec![R(0, 0, true), F, W(1, 1, true)],
                vec![R(1, 1, true), F, W(0, 1, false)],
            ],
        ),
        (
            "RWC",
            vec![
                vec![W(0, 1, true)],
                vec![R(0, 0, true), F, R(1, 1, true)],
                vec![W(1, 1, true), F, R(0, 2, true)],
            ],
        ),
        (
            "ISA2",
            vec![
                vec![W(0, 1, false), F, W(1, 1, true)],
                vec![R(1, 0, true), F, W(2, 1, true)],
                vec![R(2, 1, true), F, R(0, 2, false)],
            ],
        ),
        (
            "3.LB",
            vec![
                vec![R(0, 0, true), F, W(1, 1, true)],
                vec![R(1, 1, true), F, W(2, 1, true)],
                vec![R(2, 2, true), F, W(0, 1, true)],
            ],
        ),
        (
            "3.SB",
            vec![
                vec![W(0, 1, true), F, R(1, 0, true)],
                vec![W(1, 1, true), F, R(2, 1, true)],
                vec![W(2, 1, true), F, R(0, 2, true)],
            ],
        ),
        (
            "Z6",
            vec![
                vec![W(0, 1, true), F, W(1, 1, true)],
                vec![W(1, 2, true), F, R(2, 0, true)],
                vec![W(2, 1, true), F, R(0, 1, true)],
            ],
        ),
        (
            "IRIW",
            vec![
                vec![W(0, 1, true)],
                vec![W(1, 1, true)],
                vec![R(0, 0, true), F, R(1, 1, true)],
                vec![R(1, 2, true), F, R(0, 3, true)],
            ],
        ),
    ]
}

/// How a thread's accesses and fences are ordered.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// `None`: weak accesses; otherwise relaxed ones, or releasing and acquiring ones.
    accesses: Option<bool>,
    fence: &'static str,
}

const WAYS: [Way; 7] = [
    Way {
        name: "weak",
        accesses: None,
        fence: "",
    },
    Way {
        name: "relaxed",
        accesses: Some(false),
        fence: "",
    },
    Way {
        name: "access",
        accesses: Some(true),
        fence: "",
    },
    Way {
        name: "acq_rel",
        accesses: Some(false),
        fence: "acq_rel",
    },
    Way {
        name: "sc",
        accesses: Some(false),
        fence: "sc",
    },
    Way {
        name: "weak+acq_rel",
        accesses: None,
        fence: "acq_rel",
    },
    Way {
        name: "access+sc",
        accesses: Some(true),
        fence: "sc",
    },
];

fn act(part: Part, way: Way, scope: &'static str) -> Option<Act> {
    let words = |ordered: bool, order: &'static str| match way.accesses {
        None => Words::WEAK,
        Some(true) if ordered => Words { order, scope },
        Some(_) => Words {
            order: "relaxed",
            scope,
        },
    };
    match part {
        W(place, value, ordered) => Some(Act::Store(
            place,
            Stored::Constant(value),
            words(ordered, "release"),
        )),
        R(place, register, ordered) => Some(Act::Load(place, register, words(ordered, "acquire"))),
        F if way.fence.is_empty() => None,
        F => Some(Act::Fence(way.fence, scope)),
    }
}

/// Where the threads are: name, threads of each CTA (0: all), whether the CTAs are a cluster.
const LAYOUTS: [(&str, u32, bool); 4] = [
    ("one", 0, false),
    ("apart", 1, false),
    ("cluster", 1, true),
    ("pairs", 2, false),
];

/// Every test: shapes with each thread in a way of its own, scopes and layouts; and those about dependencies, atomics and barriers.
pub fn tests() -> Vec<Litmus> {
    let mut tests = Vec::new();
    let mut push = |name: String, threads: Vec<Vec<Act>>| {
        for (layout, block, cluster) in LAYOUTS {
            let count = threads.len() as u32;
            let block = if block == 0 { count } else { block };
            if count.is_multiple_of(block) && (layout != "pairs" || count > 2) {
                tests.push(Litmus {
                    name: format!("{name}.{layout}"),
                    threads: threads.clone(),
                    block,
                    cluster,
                });
            }
        }
    };
    for (shape, skeleton) in skeletons() {
        for scope in ["cta", "cluster", "gpu"] {
            // The first thread in one way, all others in another: for four threads only where both are the same.
            for first in WAYS {
                for others in WAYS {
                    if skeleton.len() > 3 && first.name != others.name {
                        continue;
                    }
                    let threads = skeleton.iter().enumerate().map(|(at, parts)| {
                        let way = if at == 0 { first } else { others };
                        parts.iter().filter_map(|&it| act(it, way, scope)).collect()
                    });
                    let name = format!("{shape}.{}.{}.{scope}", first.name, others.name);
                    push(name, threads.collect());
                }
            }
        }
    }
    for scope in ["cta", "gpu"] {
        for (name, threads) in special(scope) {
            push(format!("{name}.{scope}"), threads);
        }
    }
    tests
}

/// Dependencies, atomics, patterns of more than one operation, barriers.
fn special(scope: &'static str) -> Vec<(&'static str, Vec<Vec<Act>>)> {
    use Act::{Add, Barrier, Branch, Exchange, Fence, Load, LoadAfter, Reduce, Store, StoreAfter};
    use Stored::{After, Constant, Sum};
    let of = |order| Words { order, scope };
    let (relaxed, release, acquire, both) =
        (of("relaxed"), of("release"), of("acquire"), of("acq_rel"));
    let weak = Words::WEAK;
    vec![
        (
            "LB+data+data",
            vec![
                vec![Load(0, 0, relaxed), Store(1, Sum(0, 0), relaxed)],
                vec![Load(1, 1, relaxed), Store(0, Sum(1, 0), relaxed)],
            ],
        ),
        (
            "LB+data+po",
            vec![
                vec![Load(0, 0, relaxed), Store(1, Sum(0, 0), relaxed)],
                vec![Load(1, 1, relaxed), Store(0, Constant(1), relaxed)],
            ],
        ),
        (
            "LB+false+false",
            vec![
                vec![Load(0, 0, relaxed), Store(1, After(0, 1), relaxed)],
                vec![Load(1, 1, relaxed), Store(0, After(1, 1), relaxed)],
            ],
        ),
        (
            "LB+ctrl+ctrl",
            vec![
                vec![
                    Load(0, 0, relaxed),
                    Branch(0),
                    Store(1, Constant(1), relaxed),
                ],
                vec![
                    Load(1, 1, relaxed),
                    Branch(1),
                    Store(0, Constant(1), relaxed),
                ],
            ],
        ),
        (
            "LB+ctrl+po",
            vec![
                vec![Load(0, 0, weak), Branch(0), Store(1, Constant(1), weak)],
                vec![Load(1, 1, weak), Store(0, Constant(1), weak)],
            ],
        ),
        (
            "LB+addr+addr",
            vec![
                vec![Load(0, 0, relaxed), StoreAfter(1, 0, 1, relaxed)],
                vec![Load(1, 1, relaxed), StoreAfter(0, 1, 1, relaxed)],
            ],
        ),
        // A store behind one that depends on the load does not depend on it.
        (
            "LB+past+data",
            vec![
                vec![
                    Load(0, 0, relaxed),
                    Store(2, Sum(0, 5), relaxed),
                    Store(1, Constant(1), relaxed),
                ],
                vec![Load(1, 1, relaxed), Store(0, Sum(1, 0), relaxed)],
            ],
        ),
        (
            "LB+pastaddr+data",
            vec![
                vec![
                    Load(0, 0, relaxed),
                    StoreAfter(2, 0, 5, relaxed),
                    Store(1, Constant(1), relaxed),
                ],
                vec![Load(1, 1, relaxed), Store(0, Sum(1, 0), relaxed)],
            ],
        ),
        (
            "LB+fence+data",
            vec![
                vec![
                    Load(0, 0, relaxed),
                    Fence("acq_rel", scope),
                    Store(1, Constant(1), relaxed),
                ],
                vec![Load(1, 1, relaxed), Store(0, Sum(1, 0), relaxed)],
            ],
        ),
        (
            "MP+fence+addr",
            vec![
                vec![
                    Store(0, Constant(1), relaxed),
                    Fence("acq_rel", scope),
                    Store(1, Constant(1), relaxed),
                ],
                vec![Load(1, 0, relaxed), LoadAfter(0, 1, 0, relaxed)],
            ],
        ),
        (
            "MP+fence+ctrl",
            vec![
                vec![
                    Store(0, Constant(1), relaxed),
                    Fence("sc", scope),
                    Store(1, Constant(1), relaxed),
                ],
                vec![Load(1, 0, relaxed), Branch(0), Load(0, 1, relaxed)],
            ],
        ),
        // Values that depend on a load of the same place further down.
        (
            "CoRR+loop",
            vec![
                vec![
                    Load(0, 0, relaxed),
                    Load(0, 1, relaxed),
                    Store(1, Sum(1, 0), relaxed),
                ],
                vec![Load(1, 2, relaxed), Store(0, Sum(2, 1), relaxed)],
                vec![Store(0, Constant(1), relaxed)],
            ],
        ),
        // Patterns: a release and a later store to the same place, a load and a later acquire, fences on one side.
        (
            "MP+relseq+acq",
            vec![
                vec![
                    Store(0, Constant(1), weak),
                    Store(1, Constant(1), release),
                    Store(1, Constant(2), relaxed),
                ],
                vec![Load(1, 0, acquire), Load(0, 1, weak)],
            ],
        ),
        (
            "MP+rel+ldacq",
            vec![
                vec![Store(0, Constant(1), weak), Store(1, Constant(1), release)],
                vec![Load(1, 0, relaxed), Load(1, 1, acquire), Load(0, 2, weak)],
            ],
        ),
        (
            "MP+split",
            vec![
                vec![
                    Store(0, Constant(1), weak),
                    Fence("release", scope),
                    Store(1, Constant(1), relaxed),
                ],
                vec![
                    Load(1, 0, relaxed),
                    Fence("acquire", scope),
                    Load(0, 1, weak),
                ],
            ],
        ),
        (
            "MP+split+wrong",
            vec![
                vec![
                    Store(0, Constant(1), weak),
                    Fence("acquire", scope),
                    Store(1, Constant(1), relaxed),
                ],
                vec![
                    Load(1, 0, relaxed),
                    Fence("release", scope),
                    Load(0, 1, weak),
                ],
            ],
        ),
        (
            "MP+weakflag",
            vec![
                vec![
                    Store(0, Constant(1), weak),
                    Fence("acq_rel", scope),
                    Store(1, Constant(1), weak),
                ],
                vec![Load(1, 0, weak), Fence("acq_rel", scope), Load(0, 1, weak)],
            ],
        ),
        // Atomics.
        (
            "inc+inc",
            vec![vec![Add(0, 1, 0, relaxed)], vec![Add(0, 1, 1, relaxed)]],
        ),
        (
            "inc+inc+inc",
            vec![
                vec![Add(0, 1, 0, relaxed)],
                vec![Add(0, 1, 1, relaxed)],
                vec![Add(0, 2, 2, relaxed)],
            ],
        ),
        (
            "inc+store",
            vec![
                vec![Add(0, 1, 0, relaxed)],
                vec![Store(0, Constant(5), relaxed)],
            ],
        ),
        (
            "inc+weakstore",
            vec![
                vec![Add(0, 1, 0, relaxed)],
                vec![Store(0, Constant(5), weak)],
            ],
        ),
        (
            "exch+load",
            vec![
                vec![Exchange(0, 1, 0, relaxed), Load(0, 1, relaxed)],
                vec![Exchange(0, 2, 2, relaxed)],
            ],
        ),
        (
            "MP+atoms",
            vec![
                vec![Store(0, Constant(1), weak), Add(1, 1, 0, release)],
                vec![Add(1, 1, 1, acquire), Load(0, 2, weak)],
            ],
        ),
        (
            "MP+through",
            vec![
                vec![Store(0, Constant(1), weak), Store(1, Constant(1), release)],
                vec![Add(1, 1, 0, relaxed)],
                vec![Load(1, 1, acquire), Load(0, 2, weak)],
            ],
        ),
        (
            "MP+red",
            vec![
                vec![Store(0, Constant(1), weak), Reduce(1, 1, release)],
                vec![Load(1, 1, acquire), Load(0, 2, weak)],
            ],
        ),
        (
            "MP+redthrough",
            vec![
                vec![Store(0, Constant(1), weak), Store(1, Constant(1), release)],
                vec![Reduce(1, 1, relaxed)],
                vec![Load(1, 1, acquire), Load(0, 2, weak)],
            ],
        ),
        (
            "MP+redread",
            vec![
                vec![Store(0, Constant(1), weak), Store(1, Constant(1), release)],
                vec![
                    Reduce(1, 1, relaxed),
                    Fence("acq_rel", scope),
                    Load(0, 2, weak),
                ],
            ],
        ),
        (
            "MP+atomread",
            vec![
                vec![Store(0, Constant(1), weak), Store(1, Constant(1), release)],
                vec![
                    Add(1, 1, 0, relaxed),
                    Fence("acq_rel", scope),
                    Load(0, 2, weak),
                ],
            ],
        ),
        (
            "SB+atoms",
            vec![
                vec![Exchange(0, 1, 0, both), Load(1, 1, relaxed)],
                vec![Exchange(1, 1, 2, both), Load(0, 3, relaxed)],
            ],
        ),
        (
            "LB+exch",
            vec![
                vec![Exchange(0, 1, 0, relaxed), Store(1, Sum(0, 0), relaxed)],
                vec![Load(1, 1, relaxed), Store(0, Sum(1, 2), relaxed)],
            ],
        ),
        // Barriers; apart, each thread has one of its own.
        (
            "MP+bar",
            vec![
                vec![Store(0, Constant(1), weak), Barrier],
                vec![Barrier, Load(0, 0, weak)],
            ],
        ),
        (
            "SB+bar",
            vec![
                vec![Store(0, Constant(1), weak), Barrier, Load(1, 0, weak)],
                vec![Store(1, Constant(1), weak), Barrier, Load(0, 1, weak)],
            ],
        ),
        (
            "LB+bar+data",
            vec![
                vec![Load(0, 0, relaxed), Barrier],
                vec![Barrier, Store(1, Constant(1), relaxed)],
                vec![Barrier, Load(1, 1, relaxed), Store(0, Sum(1, 0), relaxed)],
            ],
        ),
    ]
}
