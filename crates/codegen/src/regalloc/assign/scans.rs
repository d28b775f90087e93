//! The scans of a function: what they have in common, and the manners in which one looks for registers.

use super::super::coalesce::Classes;
use super::super::contents::Contents;
use super::super::counts::{self, Changing, Goals, Room};
use super::super::file::{File, Units};
use super::super::ranges::Ranges;
use super::super::starting_registers;
use super::boundaries::Lists;
use super::reservations::Reservations;
use super::{
    BlockBoundaries, Budget, Ceiling, Edits, Facts, Given, NOWHERE, Scan, Spent, Stop,
    crossing_values, product_values, wanted_places,
};
use crate::pipeline::PhaseError;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, EntitySet};
use orias_machine::Machine;
use orias_ori::{Block, Class, Function, Value};

/// How the scan looks for registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Manner {
    /// For values and classes as it meets them; of equally good registers the one that has been free longest is taken.
    AsMet,
    /// For classes with tuples before anything else, the widest first ([`Scan::book_widest_first`]).
    WidestFirst,
    /// The same, and the lowest of equally good registers is taken.
    Lowest,
}

/// Where products of warp groups have the registers that they work on: what tools call between instructions uses those below
/// [`orias_machine::abi::Abi::first_product`] while products are under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Products {
    /// All from that register on.
    Above,
    /// As many as there is room for, the widest first.
    WidestAbove,
    /// Wherever there is room.
    Anywhere,
}

/// All scans of a function: what they have in common is found once.
pub(in super::super) struct Scans<'a> {
    pub(in super::super) func: &'a Function,
    pub(in super::super) facts: Facts<'a>,
    order: Vec<Block>,
    ranges: Ranges,
    classes: Classes,
    crossing: EntitySet<Value>,
    wanted: Vec<Option<u8>>,
    products: Vec<Value>,
}

impl<'a> Scans<'a> {
    pub(in super::super) fn new(
        func: &'a Function,
        facts: Facts<'a>,
    ) -> Result<Scans<'a>, PhaseError> {
        let walk = facts.walk;
        let unreachable = func.blocks().filter(|&block| !walk.is_reachable(block));
        let order: Vec<Block> = walk.reverse_postorder().chain(unreachable).collect();
        let ranges = Ranges::new(func, facts.live, facts.last_uses, order.iter().copied());
        let crossing = crossing_values(func, facts.live);
        let contents = Contents::new(func, order.iter().copied());
        let may_share = |a, b| crossing.contains(a) == crossing.contains(b);
        let classes = Classes::new(func, &ranges, &contents, &may_share);
        Ok(Scans {
            func,
            facts,
            order,
            ranges,
            classes,
            crossing,
            wanted: wanted_places(func)?,
            products: product_values(func),
        })
    }

    /// Whether the function has products of warp groups.
    pub(in super::super) fn has_products(&self) -> bool {
        !self.products.is_empty()
    }

    /// Finds registers for all values. Edges still carry arguments when the changes are made. With `keeps_together` uniform values look first for registers that
    /// their kind was given before. With a `ceiling` a scan that comes to more is given up.
    pub(in super::super) fn assign(
        &self,
        budgets: [Budget; 5],
        manner: Manner,
        products: Products,
        keeps_together: bool,
        ceiling: Option<Ceiling<'_>>,
    ) -> Result<(BlockBoundaries, Edits), Stop> {
        let func = self.func;
        let Facts {
            graph,
            walk: _,
            frequencies,
            live,
            last_uses,
            tokens,
        } = self.facts;
        let fixed = &func.attributes.fixed;
        let files = Class::ALL.map(|class| {
            let budget = budgets[class as usize];
            let fixed = fixed
                .iter()
                .filter(|reg| reg.class() == class)
                .flat_map(|reg| reg.units())
                .map(|unit| unit.index());
            let lowest = manner == Manner::Lowest && class == Class::R;
            File::new(class, budget, lowest, fixed)
        });
        let machine = Machine::of(func.target);
        let mut reservations = Reservations::new(&files, &self.ranges);
        let room = Room::new(
            func,
            Goals {
                most: budgets.map(|budget| budget.usable),
                changing: starting_registers(func, func.target).map(|entry| Changing {
                    entry,
                    withheld: machine.registers.reserved,
                }),
            },
        );
        reservations.book_missing(&room);
        let for_few = counts::values_for_few(func, live, &room);
        let mut scan = Scan {
            room,
            reservations,
            wide: Units::default(),
            wanted: self.wanted.clone(),
            classes: self.classes.clone(),
            placed: vec![false; func.value_count()],
            types: (0..func.value_count())
                .map(|number| func.value_type(Value::new(number)))
                .collect(),
            insts: Vec::new(),
            home: vec![None; func.value_count()],
            edits: Edits::with_capacity(func.inst_count()),
            files,
            clock: 1,
            visited: vec![false; graph.block_count()],
            borders: BlockBoundaries {
                entry: vec![NOWHERE; live.live_in_count()],
                exit: vec![NOWHERE; live.live_out_count()],
                params: Lists::new(graph.block_count()),
                args: Lists::new(graph.block_count()),
                follows: vec![PackedOption::default(); graph.block_count()],
                named: 0,
                delayed: Vec::new(),
            },
            block: self.order[0],
            crossing: &self.crossing,
            given: [Given::default(); 5],
            keeps_together,
            ceiling,
            spent: Spent::default(),
            judged: Spent::default(),
            copied: 0,
            func,
            graph,
            live,
            frequencies,
            last_uses,
        };
        for (&token, &register) in tokens {
            scan.home[token.index()] = Some(register);
        }
        scan.book_low(&for_few);
        scan.book_products(&self.products, products)?;
        if manner != Manner::AsMet {
            scan.book_widest_first();
        }
        for &block in &self.order {
            scan.block(block)?;
        }
        scan.borders.named = scan.files[Class::R as usize].named;
        Ok((scan.borders, scan.edits))
    }
}
