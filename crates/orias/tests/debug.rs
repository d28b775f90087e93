//! Debug information says the truth: programs run in the emulator, and where a debugger would stop, their variables have what DWARF,
//! the tables of registers and the frame rules say.
//!
//! A program below `debug/` is what `nvcc -G` makes of the source that is named like it. Its first lines say how it is launched, which thread is
//! looked at, and what holds when a line is come to (for the Nth time).

#[path = "debug/dwarf.rs"]
mod dwarf;

use dwarf::{Entry, Reader, Value};
use orias::{Options, Source, Target, compile};
use orias_cubin::Cubin;
use orias_cubin::line::{line_at, lines_of};
use orias_sim::{Device, Launch, Stop};
use std::path::PathBuf;

/// `// at LINE#N: NAME = VALUE, …`
struct Expectation {
    line: u64,
    arrival: usize,
    what: Vec<(String, f64)>,
}

struct Program {
    name: String,
    text: String,
    kernel: String,
    block: u32,
    thread: u32,
    arguments: Vec<String>,
    expectations: Vec<Expectation>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/debug")
}

fn programs() -> Vec<Program> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("programs")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|it| it == "ptx"))
        .collect();
    files.sort();
    files.iter().map(|path| program(path)).collect()
}

fn program(path: &std::path::Path) -> Program {
    let text = std::fs::read_to_string(path).expect("a program");
    let name = path
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let mut program = Program {
        kernel: name.clone(),
        name,
        block: 32,
        thread: 0,
        arguments: Vec::new(),
        expectations: Vec::new(),
        text: String::new(),
    };
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("// launch: ") {
            program.arguments = rest.split_whitespace().map(str::to_owned).collect();
        } else if let Some(rest) = line.strip_prefix("// thread: ") {
            program.thread = rest.trim().parse().expect("a thread");
        } else if let Some(rest) = line.strip_prefix("// at ") {
            let (place, what) = rest.split_once(": ").expect("a place and what holds there");
            let (line, arrival) = place.split_once('#').unwrap_or((place, "1"));
            let what = what.split(", ").map(|one| {
                let (name, value) = one.split_once(" = ").expect("a name and a value");
                (name.to_owned(), value.parse().expect("a number"))
            });
            program.expectations.push(Expectation {
                line: line.parse().expect("a line"),
                arrival: arrival.parse().expect("a number"),
                what: what.collect(),
            });
        }
    }
    program.text = text;
    program
}

/// A program that was run, and what a debugger has of it.
struct Session {
    cubin: Cubin,
    kernel: String,
    unit: Entry,
    stops: Vec<Stop>,
    parameters: Vec<u8>,
}

fn run(program: &Program) -> Session {
    let options = Options {
        target: Target::parse("sm_90a").expect("a target"),
        debug: true,
        ..Options::default()
    };
    let source = Source {
        name: &program.name,
        text: program.text.as_bytes(),
    };
    let compiled = compile(&source, &options).unwrap_or_else(|said| panic!("{said:?}"));
    let bytes = compiled.cubin.expect("a cubin");
    let cubin = Cubin::read(&bytes).expect("a cubin");
    let judged = orias_verify::judge(&cubin).expect("a judgement");
    assert!(judged.findings.is_empty(), "{}", program.name);
    let mut device = Device::new();
    let module = device.load(&bytes).expect("a module");
    let mut arguments = Vec::new();
    let mut parameters: Vec<u8> = Vec::new();
    for argument in &program.arguments {
        let (kind, value) = argument.split_once(':').expect("TYPE:VALUE");
        let number = || value.parse::<f64>().expect("a number");
        let bytes: Vec<u8> = match kind {
            "i32" => (number() as i32).to_le_bytes().to_vec(),
            "f32" => (number() as f32).to_le_bytes().to_vec(),
            "words" => (value.split(','))
                .flat_map(|word| word.parse::<u32>().expect("a word").to_le_bytes())
                .collect(),
            "buffer" => {
                let zeros = vec![0; number() as usize];
                device.allocate(&zeros).to_le_bytes().to_vec()
            }
            // So many numbers, from -5 on.
            "counting" => {
                let list = (0..number() as i32).flat_map(|it| (it - 5).to_le_bytes());
                let list: Vec<u8> = list.collect();
                device.allocate(&list).to_le_bytes().to_vec()
            }
            other => panic!("arguments of the kind {other}"),
        };
        let align = if kind == "words" { 4 } else { bytes.len() };
        parameters.resize(parameters.len().next_multiple_of(align), 0);
        parameters.extend_from_slice(&bytes);
        arguments.push(bytes);
    }
    let launch = Launch {
        kernel: program.kernel.clone(),
        grid: [1; 3],
        block: [program.block, 1, 1],
        arguments,
        ..Launch::default()
    };
    let how = orias_sim::Options {
        follow: Some(program.thread),
        ..orias_sim::Options::default()
    };
    let outcome = device.launch(&module, &launch, &how).expect("a launch");
    assert!(
        outcome.fault.is_none(),
        "{}: {:?}",
        program.name,
        outcome.fault
    );
    Session {
        unit: dwarf::unit(&cubin),
        cubin,
        kernel: program.kernel.clone(),
        stops: outcome.stops,
        parameters,
    }
}

impl Session {
    /// The line at an address.
    fn line(&self, address: u64) -> Option<u64> {
        let rows = lines_of(&self.cubin, &self.kernel);
        line_at(&rows, address).map(|row| row.line)
    }

    /// The state when a line is come to for the `arrival`th time.
    fn arrival(&self, line: u64, arrival: usize) -> Option<&Stop> {
        let rows = lines_of(&self.cubin, &self.kernel);
        let mut before = None;
        let mut count = 0;
        for stop in &self.stops {
            let now = line_at(&rows, stop.offset).map(|row| row.line);
            // A line begins where its row does.
            let begins = rows.iter().any(|row| row.address == stop.offset);
            if now == Some(line) && before != now && begins {
                count += 1;
                if count == arrival {
                    return Some(stop);
                }
            }
            before = now;
        }
        None
    }

    fn subprogram(&self, address: u64) -> &Entry {
        let mut functions = self.unit.children.iter();
        functions
            .find(|it| it.tag == dwarf::TAG_SUBPROGRAM && it.covers(address))
            .unwrap_or_else(|| panic!("a function at {address:#x}"))
    }

    /// What an expression has: a variable, then members and elements of it. `caller` is the line that the function was called from.
    fn evaluate(&self, stop: &Stop, expression: &str) -> Result<f64, String> {
        if expression == "caller" {
            return self.caller(stop);
        }
        let (name, mut path) = match expression.find(['.', '[']) {
            Some(at) => expression.split_at(at),
            None => (expression, ""),
        };
        let variable = self.variable(stop, name).ok_or("not in scope")?;
        let mut ty = self.type_of(variable);
        let mut bytes = self.bytes(stop, variable, ty)?;
        while !path.is_empty() {
            if let Some(rest) = path.strip_prefix('[') {
                let (index, rest) = rest.split_once(']').ok_or("a bracket is missing")?;
                path = rest;
                let element = self.type_of(ty);
                let size = self.size(element);
                let start = index.parse::<usize>().map_err(|it| it.to_string())? * size;
                bytes = bytes[start..start + size].to_vec();
                ty = element;
            } else {
                let rest = &path[1..];
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let (member, rest) = rest.split_at(end);
                path = rest;
                let mut members = ty.children.iter();
                let member = members
                    .find(|it| it.tag == dwarf::TAG_MEMBER && it.text(dwarf::AT_NAME) == member)
                    .ok_or("no such member")?;
                let start = match member.get(dwarf::AT_MEMBER_LOCATION) {
                    Some(Value::Block(block)) => Reader(&block[1..]).uleb() as usize,
                    _ => return Err("a member without a place".to_owned()),
                };
                ty = self.type_of(member);
                bytes = bytes[start..start + self.size(ty)].to_vec();
            }
        }
        number(ty, &bytes)
    }

    /// The innermost variable of that name in scope.
    fn variable(&self, stop: &Stop, name: &str) -> Option<&Entry> {
        let mut scope = self.subprogram(stop.offset);
        let mut found = None;
        loop {
            let mut own = scope.children.iter();
            found = own
                .find(|it| {
                    matches!(it.tag, dwarf::TAG_VARIABLE | dwarf::TAG_PARAMETER)
                        && it.text(dwarf::AT_NAME) == name
                })
                .or(found);
            let mut inner = scope.children.iter();
            match inner.find(|it| it.tag == dwarf::TAG_LEXICAL_BLOCK && it.covers(stop.offset)) {
                Some(inner) => scope = inner,
                None => break,
            }
        }
        let mut globals = self.unit.children.iter();
        found.or_else(|| globals.find(|it| it.text(dwarf::AT_NAME) == name))
    }

    /// The type that an entry names, names of types and qualifiers left out.
    fn type_of(&self, entry: &Entry) -> &Entry {
        let offset = entry.number(dwarf::AT_TYPE).expect("a type");
        let ty = self.unit.find(offset).expect("its entry");
        match ty.tag {
            0x16 | 0x26 | 0x35 => self.type_of(ty),
            _ => ty,
        }
    }

    fn size(&self, ty: &Entry) -> usize {
        match ty.tag {
            // Arrays, by their subranges.
            0x01 => {
                let counts = ty.children.iter();
                let counts = counts.filter(|it| it.tag == dwarf::TAG_SUBRANGE);
                let count =
                    counts.filter_map(|it| it.number(0x37).or(it.number(0x2f).map(|n| n + 1)));
                count.product::<u64>() as usize * self.size(self.type_of(ty))
            }
            0x0f => 8,
            _ => ty.number(dwarf::AT_BYTE_SIZE).unwrap_or(0) as usize,
        }
    }

    fn bytes(&self, stop: &Stop, variable: &Entry, ty: &Entry) -> Result<Vec<u8>, String> {
        let expression = match variable.get(dwarf::AT_LOCATION) {
            Some(Value::Block(block)) => block.clone(),
            Some(Value::Number(list)) => self.read_list(stop, *list)?,
            _ => return Err("no location".to_owned()),
        };
        let size = self.size(ty);
        let mut reader = Reader(&expression);
        match reader.number(1) {
            0x90 => {
                let letters = reader.uleb().to_be_bytes();
                let letters: Vec<u8> = letters.into_iter().skip_while(|it| *it == 0).collect();
                let name = String::from_utf8_lossy(&letters).into_owned();
                self.register(stop, &name, size)
            }
            0x03 => {
                let address = reader.number(8);
                match variable.number(dwarf::AT_ADDRESS_CLASS) {
                    // Parameters lie in a constant bank.
                    Some(7) => {
                        let start = address.checked_sub(0x210).ok_or("before the parameters")?;
                        let start = start as usize;
                        let found = self.parameters.get(start..start + size);
                        Ok(found.ok_or("behind the parameters")?.to_vec())
                    }
                    other => Err(format!("an address in the space {other:?}")),
                }
            }
            0x91 => {
                let mut offset = reader.sleb();
                while !reader.0.is_empty() {
                    match reader.number(1) {
                        0x96 => {}
                        0x23 => offset += reader.uleb() as i64,
                        other => return Err(format!("operation {other:#x}")),
                    }
                }
                let frame = dwarf::frame_at(&self.cubin, stop.offset).ok_or("no frame rules")?;
                let upper = u64::from(stop.registers[1]) + frame.size;
                let address = upper.wrapping_add_signed(offset);
                stop.local(address, size)
                    .ok_or_else(|| "outside of local memory".to_owned())
            }
            other => Err(format!("operation {other:#x}")),
        }
    }

    fn read_list(&self, stop: &Stop, list: u64) -> Result<Vec<u8>, String> {
        let whole = dwarf::section(&self.cubin, ".debug_loc");
        let mut reader = Reader(&whole[list as usize..]);
        loop {
            let (start, end) = (reader.number(8), reader.number(8));
            if (start, end) == (0, 0) {
                return Err(format!("no place at {:#x}", stop.offset));
            }
            let length = reader.number(2) as usize;
            let expression = reader.0[..length].to_vec();
            reader.0 = &reader.0[length..];
            if (start..end).contains(&stop.offset) {
                return Ok(expression);
            }
        }
    }

    /// What a register of the PTX has.
    fn register(&self, stop: &Stop, name: &str, size: usize) -> Result<Vec<u8>, String> {
        let function = self.subprogram(stop.offset);
        let start = function.number(dwarf::AT_LOW_PC).unwrap_or(0);
        let at = stop.offset - start;
        let linkage = function.text(dwarf::AT_LINKAGE_NAME);
        let tables = dwarf::registers(&self.cubin);
        let table = tables.iter().find(|(it, _)| it == linkage);
        let (_, table) = table.ok_or_else(|| format!("no table of {linkage}"))?;
        let mut bytes = Vec::new();
        for word in 0..size.div_ceil(4) as u64 {
            let places: Vec<_> = (table.iter())
                .filter(|it| {
                    it.name == name && it.word == word && (it.start..=it.end).contains(&at)
                })
                .collect();
            let mut values = places.iter().map(|it| match it.place >> 24 {
                5 => Ok(stop.registers[it.place as usize & 0xff]),
                2 => Ok(stop.predicates >> (it.place & 0xff) & 1),
                7 => {
                    let address = u64::from(stop.registers[1]) + (it.place & 0xffff);
                    let bytes = stop.local(address, 4).ok_or("outside of local memory")?;
                    Ok(u32::from_le_bytes(
                        bytes.try_into().map_err(|_| "four bytes")?,
                    ))
                }
                other => Err(format!("class {other}")),
            });
            let value = values
                .next()
                .ok_or_else(|| format!("word {word} of {name} lies nowhere at {at:#x}"))??;
            for other in values {
                assert_eq!(other?, value, "{name} at {at:#x}: {places:?}");
            }
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes.truncate(size);
        Ok(bytes)
    }

    /// The line that called the function, by its frame rules.
    fn caller(&self, stop: &Stop) -> Result<f64, String> {
        let frame = dwarf::frame_at(&self.cubin, stop.offset).ok_or("no frame rules")?;
        let register = frame.returns_by & 0xff;
        assert!(!frame.lost.contains(&register), "the return address");
        let stored = frame.stored.iter().find(|(it, _)| *it == register);
        let moved = frame.moved.iter().find(|(it, _)| *it == register);
        let back = match (stored, moved) {
            (None, None) => u64::from(stop.registers[register as usize]),
            (None, Some((_, other))) => u64::from(stop.registers[*other as usize]),
            (Some((_, below)), _) => {
                let upper = u64::from(stop.registers[1]) + frame.size;
                let bytes = stop
                    .local(upper - below, 4)
                    .ok_or("outside of local memory")?;
                let bytes: [u8; 4] = bytes.try_into().map_err(|_| "four bytes")?;
                u64::from(u32::from_le_bytes(bytes))
            }
        };
        let line = self.line(back - 16).ok_or("no line")?;
        Ok(line as f64)
    }
}

/// A number of a base type.
fn number(ty: &Entry, bytes: &[u8]) -> Result<f64, String> {
    if ty.tag != dwarf::TAG_BASE_TYPE {
        return Err(format!("a value of the type {:#x}", ty.tag));
    }
    let size = bytes.len();
    let mut all = [0; 8];
    all[..size].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(all);
    Ok(match (ty.number(dwarf::AT_ENCODING), size) {
        (Some(4), 4) => f64::from(f32::from_bits(bits as u32)),
        (Some(4), _) => f64::from_bits(bits),
        (Some(5 | 6), _) => {
            let unused = 64 - 8 * size as u32;
            ((bits << unused) as i64 >> unused) as f64
        }
        _ => bits as f64,
    })
}

#[test]
fn variables_have_at_each_line_what_the_program_gives_them() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for program in programs() {
        let session = run(&program);
        assert!(!program.expectations.is_empty(), "{}", program.name);
        for expectation in &program.expectations {
            let Expectation {
                line,
                arrival,
                what,
            } = expectation;
            let place = format!("{}, line {line} #{arrival}", program.name);
            let Some(stop) = session.arrival(*line, *arrival) else {
                wrong.push(format!("{place} is not come to"));
                continue;
            };
            for (name, value) in what {
                checked += 1;
                match session.evaluate(stop, name) {
                    Ok(found) if found == *value => {}
                    Ok(found) => wrong.push(format!(
                        "{place}: {name} is {found}, not {value} (at {:#x})",
                        stop.offset
                    )),
                    Err(why) => {
                        wrong.push(format!("{place}: {name}: {why} (at {:#x})", stop.offset));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 100, "{checked} variables");
}

#[test]
fn every_instruction_has_a_line_and_lies_in_one_function() {
    for program in programs() {
        let session = run(&program);
        for stop in &session.stops {
            assert!(session.line(stop.offset).is_some(), "{}", program.name);
            let mut functions = session.unit.children.iter();
            let known = (session.cubin.symbols().iter()).any(|symbol| {
                // Functions of the compiler's own have no entry.
                let name = symbol.name.text.rsplit('$').next().unwrap_or_default();
                (name.starts_with("__") || name == "sqrt")
                    && (symbol.value..symbol.value + symbol.size).contains(&stop.offset)
            });
            let found = known
                || functions.any(|it| it.tag == dwarf::TAG_SUBPROGRAM && it.covers(stop.offset));
            assert!(found, "{}: no function at {:#x}", program.name, stop.offset);
        }
    }
}
