//! Rich programs: modules of several kernels or of none, with control flow, calls, constant data and sharing of every kind.

mod calls;
mod data;
mod flow;
mod sharing;

use super::vocabulary::Class;
use super::{KERNEL, Options, Writer};
use orias_random::Rng;

/// What a writer of rich programs knows besides.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// Functions that may be called here.
    callees: Vec<calls::Callee>,
    /// The function whose body this is, if it is no kernel's: it has registers and constant data, nothing else.
    function: Option<calls::Callee>,
    /// Whether threads may end here: nobody counts on who is here.
    leaving: bool,
}

/// The name of a kernel by its number.
fn kernel_name(number: usize) -> String {
    match number {
        0 => KERNEL.to_owned(),
        n => format!("{KERNEL}{n}"),
    }
}

/// The module of a seed.
pub(super) fn module(seed: u64, options: &Options) -> String {
    let mut rng = Rng::new(seed ^ 0x7269_6368);
    let kernels = match rng.below(12) {
        0 => 0,
        1 => 3,
        2..=3 => 2,
        _ => 1,
    };
    let mut text = String::from(".version 8.3\n.target sm_90a\n.address_size 64\n\n");
    if kernels == 0 {
        text += &data::without_kernels(&mut rng);
        return text;
    }
    text += ".shared .align 16 .b8 exchange[1024];\n";
    text += sharing::DECLARATIONS;
    text += &data::tables(&mut rng);
    let mut callees = Vec::new();
    for number in 0..rng.below(4) {
        let inner = Writer::new(Rng::new(rng.next_u64()), *options);
        let (callee, function) = inner.rich_function(number, &callees);
        text += &function;
        callees.push(callee);
    }
    for number in 0..kernels {
        let mut writer = Writer::new(Rng::new(rng.next_u64()), *options);
        writer.rich.callees.clone_from(&callees);
        text += &writer.rich_kernel(&kernel_name(number), kernels);
    }
    text
}

impl Writer {
    fn rich_kernel(mut self, name: &str, kernels: usize) -> String {
        let statements = self.options.statements / kernels;
        let statements = statements / 4 + self.rng.below(statements.max(1));
        self.prologue();
        self.rich_prologue();
        self.block(statements, 0);
        self.rich_epilogue();
        self.kernel(name, "%warp, ")
    }

    /// What threads share starts as zeros.
    fn rich_prologue(&mut self) {
        self.line("shr.u32 %warp, %tid32, 5;");
        let first = self.temporary(Class::Pred);
        self.line(format!("setp.eq.u32 {first}, %tid32, 0;"));
        for at in (0..64).step_by(16) {
            self.line(format!(
                "@{first} st.shared.v4.b32 [cells+{at}], {{0, 0, 0, 0}};"
            ));
        }
        self.line(format!("@{first} st.shared.v2.b32 [alive], {{-1, -1}};"));
        self.line("bar.sync 0;");
    }

    /// Those who are left look at what they shared.
    fn rich_epilogue(&mut self) {
        self.line("bar.sync 0;");
        for at in [0, 4, 8, 12, 20, 24, 32, 36] {
            let cell = self.temporary(Class::B32);
            self.line(format!("ld.shared.b32 {cell}, [cells+{at}];"));
            self.mix_register(Class::B32, &cell);
        }
        self.epilogue();
    }

    /// Says what comes, for readers and for counting.
    fn note(&mut self, what: &str) {
        self.line(format!("// {what}"));
    }

    /// A statement that only rich programs have; false if it is to be one of the others.
    pub(super) fn rich_statement(&mut self) -> bool {
        if let Some(callee) = self.rich.function.clone() {
            match self.rng.below(12) {
                0 => self.constant_data(),
                1 if !self.rich.callees.is_empty() => self.rich_call(),
                2 => self.early_result(&callee),
                _ => self.scalar_statement(),
            }
            return true;
        }
        match self.rng.below(24) {
            0 => self.constant_data(),
            1 => self.retry_loop(),
            2 => self.locked(),
            3..=4 if !self.rich.callees.is_empty() => self.rich_call(),
            5 if self.rich.leaving => self.leave(),
            5 => match self.members.clone() {
                Some(members) => self.turns_of_a_warp(&members),
                None => return false,
            },
            6 if self.uniform && self.rng.one_in(2) => self.turns_of_a_cta(),
            6 if self.together => self.barrier_in_both_arms(),
            _ => return false,
        }
        true
    }

    /// Control flow that only rich programs have; false if it is to be another.
    pub(super) fn rich_structure(&mut self, statements: usize, depth: usize) -> bool {
        let top = depth == 0 && self.together && self.rich.function.is_none();
        match self.rng.below(12) {
            0..=1 => self.several_exits(statements, depth),
            2 => self.exits_of_two_loops(statements, depth),
            3 => self.two_entries(statements, depth),
            4 if top && self.members.is_some() => self.some_leave(statements, depth),
            5 if top && !self.rich.leaving => self.leaving_region(statements, depth),
            6..=7 if self.together => self.barrier_after_a_divergent_loop(statements, depth),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests;
