//! Source locations: source lines as `.loc` gives them, and lines of the PTX itself.
//!
//! A `.loc` holds until the next one. One that names a place it was inlined at means the last `.loc` of that place before it, which
//! may have been inlined itself: so places form chains. Names of inlined functions are labels in a `.debug_str` section; what is kept
//! of them is their offset there.

use orias_ori::{Function, Location, Span};
use orias_ptx::diagnostic::LineIndex;
use orias_ptx::name::Name;
use orias_ptx::{Module, ast};
use rustc_hash::FxHashMap;

/// How deep inlined places are followed.
const DEPTH: usize = 64;

/// What a module says about lines.
pub(super) struct Lines<'m> {
    /// Where each line of the PTX starts, and how many lines are before its first; nothing where PTX lines are not wanted.
    index: Option<(LineIndex<'m>, u32)>,
    /// The strings of `.debug_str`, and the offsets of labels in them.
    pub strings: Vec<u8>,
    labels: FxHashMap<Name, u32>,
}

impl<'m> Lines<'m> {
    /// Reads the module's strings; `ptx_lines` is how many lines precede it, if its lines are wanted.
    pub fn of(module: &'m Module<'_>, ptx_lines: Option<u32>) -> Lines<'m> {
        let mut lines = Lines {
            index: ptx_lines.map(|before| (LineIndex::new(module.source), before)),
            strings: Vec::new(),
            labels: FxHashMap::default(),
        };
        for section in &module.sections {
            if module.text(section.name) == ".debug_str" {
                let before = lines.strings.len() as u32;
                lines.strings.extend_from_slice(&section.bytes);
                for &(label, at) in &section.labels {
                    lines.labels.insert(label, before + at);
                }
            }
        }
        lines
    }

    /// The line of the PTX at `offset`; 0 where lines are not wanted. `near` is the line that was asked for last.
    pub fn line_of(&self, offset: u32, near: &mut usize) -> u32 {
        match &self.index {
            Some((index, before)) => {
                *near = index.line_near(offset, *near);
                *near as u32 + before
            }
            None => 0,
        }
    }
}

/// The place that lowering is at.
#[derive(Default)]
pub(super) struct At {
    /// The location of what is made now.
    pub span: Option<Span>,
    /// What the last `.loc` says.
    base: Option<Location>,
    /// The line of the PTX that was asked for last.
    line: usize,
    known: FxHashMap<Location, Span>,
    /// The last location of each place.
    recent: FxHashMap<(u32, u32, u32), Span>,
}

impl At {
    /// Takes a `.loc`, in code that is inlined at `called_from`.
    pub fn locate(
        &mut self,
        func: &mut Function,
        lines: &Lines<'_>,
        location: &ast::Location,
        called_from: Option<Span>,
    ) {
        let place = (location.file, location.line, location.column);
        let mut function = None;
        let mut inlined_at = called_from;
        if let Some(inlined) = location.inlined {
            let label = lines.labels.get(&inlined.function);
            function = label.map(|&at| at.wrapping_add(inlined.offset as u32));
            let known = self.recent.get(&inlined.at).copied();
            let outer = known.filter(|&span| inlined.at != place && depth(func, span) < DEPTH);
            inlined_at = Some(outer.unwrap_or_else(|| {
                let plain = Location {
                    file: inlined.at.0,
                    line: inlined.at.1,
                    column: inlined.at.2,
                    inlined_at: called_from.into(),
                    function: None,
                    ptx: 0,
                    register: None,
                };
                self.add(func, plain)
            }));
        }
        let base = Location {
            file: location.file,
            line: location.line,
            column: location.column,
            inlined_at: inlined_at.into(),
            function,
            ptx: 0,
            register: None,
        };
        let span = self.add(func, base);
        self.recent.insert(place, span);
        self.base = Some(base);
        self.span = Some(span);
    }

    /// Takes the instruction at `offset` of the PTX.
    pub fn instruction(&mut self, func: &mut Function, lines: &Lines<'_>, offset: u32) {
        let ptx = lines.line_of(offset, &mut self.line);
        if ptx == 0 {
            return;
        }
        let base = self.base.unwrap_or_else(nowhere);
        let location = Location { ptx, ..base };
        // Hardly two instructions share a line, so no table of all lines is kept.
        if self
            .span
            .is_none_or(|span| func.locations[span] != location)
        {
            self.span = Some(func.locations.push(location));
        }
    }

    /// Goes back to where a function was called from.
    pub fn resume(&mut self, func: &Function, called_from: Option<Span>) {
        self.span = called_from;
        self.base = called_from.map(|span| Location {
            ptx: 0,
            register: None,
            ..func.locations[span]
        });
    }

    /// The location of what is made now.
    pub fn location(&self, func: &Function) -> Location {
        self.span.map_or_else(nowhere, |span| func.locations[span])
    }

    fn add(&mut self, func: &mut Function, location: Location) -> Span {
        let locations = &mut func.locations;
        *self
            .known
            .entry(location)
            .or_insert_with(|| locations.push(location))
    }
}

/// No source line.
fn nowhere() -> Location {
    Location {
        file: 0,
        line: 0,
        column: 0,
        inlined_at: None.into(),
        function: None,
        ptx: 0,
        register: None,
    }
}

fn depth(func: &Function, span: Span) -> usize {
    let mut at = Some(span);
    let mut depth = 0;
    while let Some(span) = at
        && depth <= DEPTH
    {
        depth += 1;
        at = func.locations[span].inlined_at.expand();
    }
    depth
}
