//! Which name means what, here and now.
//!
//! Names are dense numbers, so the current meaning of each is an entry in a vector. A declaration overwrites the entry
//! and remembers the old one; leaving a scope puts them back. Register ranges (`%r<100>`) are kept by their prefix: a
//! name that is not bound is split into prefix and number, and the registers of a range come into being when used.

use crate::ast::{FunctionId, ListId, Register, RegisterId, VariableId};
use crate::name::{Name, Names};
use crate::types::Type;
use rustc_hash::FxHashMap;

/// The deepest nesting of scopes.
pub const MAX_DEPTH: usize = 1000;

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Nothing.
    Unbound,
    /// A register of the current function.
    Register(RegisterId),
    /// A variable or parameter.
    Variable(VariableId),
    /// A function.
    Function(FunctionId),
    /// A target list or prototype.
    List(ListId),
}

/// A declaration `.reg .b32 %r<COUNT>`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub count: u32,
    pub ty: Type,
    pub vector: u8,
}

/// The bit that stands for a length.
fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}

/// All bindings.
#[derive(Debug, Default)]
pub struct Scopes {
    bindings: Vec<Binding>,
    /// The depth at which each name was bound.
    depths: Vec<u32>,
    undo: Vec<(Name, Binding, u32)>,
    /// For each name, the range it is the prefix of, plus one.
    prefixes: Vec<u32>,
    prefix_depths: Vec<u32>,
    prefix_undo: Vec<(Name, u32, u32)>,
    ranges: Vec<Range>,
    /// The lengths that prefixes of ranges have: bit *n* for *n* bytes, the highest for all that are longer.
    prefix_lengths: u64,
    /// How many visible ranges are declared below the outermost scope of the function.
    inner_ranges: usize,
    used: FxHashMap<(u32, u32), RegisterId>,
    /// The lengths of the undo lists where each open scope began.
    marks: Vec<(usize, usize)>,
}

impl Scopes {
    /// How many scopes are open.
    pub fn depth(&self) -> usize {
        self.marks.len()
    }

    /// Opens a scope.
    pub fn open(&mut self) {
        self.marks.push((self.undo.len(), self.prefix_undo.len()));
    }

    /// Closes the innermost scope.
    pub fn close(&mut self) {
        let Some((undo, prefixes)) = self.marks.pop() else {
            return;
        };
        for (name, binding, depth) in self.undo.drain(undo..).rev() {
            self.bindings[name.index()] = binding;
            self.depths[name.index()] = depth;
        }
        if !self.marks.is_empty() {
            self.inner_ranges -= self.prefix_undo.len() - prefixes;
        }
        for (name, range, depth) in self.prefix_undo.drain(prefixes..).rev() {
            self.prefixes[name.index()] = range;
            self.prefix_depths[name.index()] = depth;
        }
        if self.marks.is_empty() {
            self.ranges.clear();
            self.used.clear();
        }
    }

    fn reserve(&mut self, name: Name) {
        if name.index() >= self.bindings.len() {
            let length = (name.index() + 1).next_power_of_two();
            self.bindings.resize(length, Binding::Unbound);
            self.depths.resize(length, 0);
            self.prefixes.resize(length, 0);
            self.prefix_depths.resize(length, 0);
        }
    }

    /// What a name is bound to; registers of ranges are not found here.
    #[inline]
    pub fn get(&self, name: Name) -> Binding {
        self.bindings
            .get(name.index())
            .copied()
            .unwrap_or(Binding::Unbound)
    }

    /// What the innermost scope itself binds the name to.
    pub fn get_here(&self, name: Name) -> Binding {
        if self.depths.get(name.index()) == Some(&(self.depth() as u32)) {
            self.get(name)
        } else {
            Binding::Unbound
        }
    }

    /// Binds a name in the innermost scope.
    pub fn bind(&mut self, name: Name, binding: Binding) {
        self.reserve(name);
        let old = std::mem::replace(&mut self.bindings[name.index()], binding);
        let depth = self.depth() as u32;
        let old_depth = std::mem::replace(&mut self.depths[name.index()], depth);
        if !self.marks.is_empty() {
            self.undo.push((name, old, old_depth));
        }
    }

    /// Declares a range, whose prefix has so many bytes. Returns false when the scope has one with that prefix already.
    pub fn bind_range(&mut self, name: Name, length: usize, range: Range) -> bool {
        self.reserve(name);
        self.prefix_lengths |= length_bit(length);
        let depth = self.depth() as u32;
        let at = name.index();
        if self.prefixes[at] != 0 && self.prefix_depths[at] == depth {
            return false;
        }
        self.ranges.push(range);
        let index = self.ranges.len() as u32;
        let old = std::mem::replace(&mut self.prefixes[at], index);
        let old_depth = std::mem::replace(&mut self.prefix_depths[at], depth);
        self.prefix_undo.push((name, old, old_depth));
        if depth > 1 {
            self.inner_ranges += 1;
        }
        true
    }

    /// The range that holds `text`, its depth, and the number within it.
    fn range_of(&self, names: &Names<'_>, text: &[u8]) -> Option<(u32, u32, u32)> {
        let mut best: Option<(u32, u32, u32)> = None;
        let mut value: u64 = 0;
        let mut scale: u64 = 1;
        for split in (1..text.len()).rev().take(10) {
            let digit = text[split];
            if !digit.is_ascii_digit() {
                break;
            }
            value += u64::from(digit - b'0') * scale;
            scale *= 10;
            if self.prefix_lengths & length_bit(split) == 0 {
                continue;
            }
            let Some(prefix) = names.find(&text[..split]) else {
                continue;
            };
            let index = self.prefixes.get(prefix.index()).copied().unwrap_or(0);
            if index == 0 {
                continue;
            }
            let depth = self.prefix_depths[prefix.index()];
            let range = &self.ranges[index as usize - 1];
            if value < u64::from(range.count) && best.is_none_or(|(_, deepest, _)| depth > deepest)
            {
                best = Some((index, depth, value as u32));
            }
        }
        best
    }

    /// Whether the innermost scope has a range that holds this name.
    pub fn in_range_here(&self, names: &Names<'_>, name: Name) -> bool {
        let depth = self.depth() as u32;
        self.range_of(names, names.bytes(name))
            .is_some_and(|(_, at, _)| at == depth)
    }

    /// The register of a range that a name means, made now if this is its first use.
    pub fn range_register(
        &mut self,
        names: &Names<'_>,
        name: Name,
        registers: &mut Vec<Register>,
    ) -> Option<RegisterId> {
        let (index, depth, number) = self.range_of(names, names.bytes(name))?;
        let range = self.ranges[index as usize - 1];
        let mut make = || {
            registers.push(Register {
                name,
                ty: range.ty,
                vector: range.vector,
            });
            RegisterId(registers.len() as u32 - 1)
        };
        // Where the range's own scope uses the name first, it is bound for as long as there is the range.
        let id = if depth == self.depth() as u32 {
            let used = self.used.get(&(index, number)).copied();
            used.unwrap_or_else(make)
        } else {
            *self.used.entry((index, number)).or_insert_with(&mut make)
        };
        // From now on the name is found directly. Where an inner scope uses it first, the entry goes when that scope
        // closes, and the next use comes here again.
        self.bind(name, Binding::Register(id));
        self.depths[name.index()] = depth;
        Some(id)
    }

    /// Whether a range of an inner scope hides what the name is bound to.
    #[inline]
    pub fn hidden_by_range(&self, names: &Names<'_>, name: Name) -> bool {
        self.inner_ranges > 0
            && self
                .range_of(names, names.bytes(name))
                .is_some_and(|(_, depth, _)| {
                    self.depths
                        .get(name.index())
                        .is_none_or(|&bound| depth > bound)
                })
    }
}

impl Scopes {
    /// What a name is bound to at module level, seen from inside a function.
    pub fn get_outermost(&self, name: Name) -> Binding {
        // The oldest remembered binding of the name, or the current one where no scope rebinds it.
        let from = self.marks.first().map_or(0, |mark| mark.0);
        self.undo[from..]
            .iter()
            .find(|(it, _, _)| *it == name)
            .map_or_else(|| self.get(name), |(_, binding, _)| *binding)
    }

    /// Binds a name at module level from inside a function's head.
    pub fn bind_outermost(&mut self, name: Name, binding: Binding) {
        self.reserve(name);
        let from = self.marks.first().map_or(0, |mark| mark.0);
        match self.undo[from..].iter_mut().find(|(it, _, _)| *it == name) {
            Some(entry) => *entry = (name, binding, 0),
            None => {
                self.bindings[name.index()] = binding;
                self.depths[name.index()] = 0;
            }
        }
    }
}
