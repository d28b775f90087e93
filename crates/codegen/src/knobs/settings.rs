//! The values knobs have in one compilation.

use super::registry::{DefaultValue, KNOBS, Key, Knob};
use super::when::{WhenError, WhenList};
use crate::names;
use std::collections::BTreeMap;

/// A value that was set. Its variant is the knob's type.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    When(WhenList),
}

/// The values of all knobs: what was set, and defaults for the rest.
#[derive(Clone, Debug)]
pub struct Knobs {
    registry: &'static [&'static Knob],
    /// By number.
    set: BTreeMap<u32, Value>,
    never: WhenList,
}

/// Why a knob was not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// There is no `=`.
    #[error("'{0}': a knob is set by NAME=VALUE")]
    NoValue(String),
    /// No knob has this name or number.
    #[error("no knob is named '{name}'{suggestion}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What was probably meant.
        suggestion: String,
    },
    /// The value is not of the knob's type.
    #[error("knob {knob} is {expected}, which '{value}' is not")]
    WrongType {
        /// The knob's name.
        knob: &'static str,
        /// Its type, with an article.
        expected: &'static str,
        /// What was given.
        value: String,
    },
    /// The value is no list of conditions.
    #[error("knob {knob}: {error}")]
    When {
        /// The knob's name.
        knob: &'static str,
        /// What is wrong with it.
        error: WhenError,
    },
    /// A line of a knob file is wrong.
    #[error("line {line}: {error}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        error: Box<KnobError>,
    },
}

impl Default for Knobs {
    fn default() -> Self {
        Self::new(KNOBS)
    }
}

impl PartialEq for Knobs {
    fn eq(&self, other: &Self) -> bool {
        self.set == other.set
    }
}

impl Knobs {
    /// The knobs of `registry`, none of them set.
    pub fn new(registry: &'static [&'static Knob]) -> Self {
        Self {
            registry,
            set: BTreeMap::new(),
            never: WhenList::default(),
        }
    }

    /// Sets a knob from `NAME=VALUE` or `NUMBER=VALUE`; the last setting of a knob counts. Names are found without regard
    /// to case.
    pub fn set(&mut self, assignment: &str) -> Result<(), KnobError> {
        let (name, value) = assignment
            .split_once('=')
            .ok_or_else(|| KnobError::NoValue(assignment.to_owned()))?;
        let knob = self.find(name.trim())?;
        let value = read_value(knob, value.trim())?;
        self.set.insert(knob.number, value);
        Ok(())
    }

    /// Sets knobs from a file: one `NAME=VALUE` a line; empty lines and what follows `#` at the start of a line are skipped.
    /// Nothing is set when a line is wrong.
    pub fn set_from_file(&mut self, text: &str) -> Result<(), KnobError> {
        let mut changed = self.clone();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                changed.set(line).map_err(|error| KnobError::Line {
                    line: index + 1,
                    error: Box::new(error),
                })?;
            }
        }
        *self = changed;
        Ok(())
    }

    fn find(&self, name: &str) -> Result<&'static Knob, KnobError> {
        let found = match name.parse::<u32>() {
            Ok(number) => self.registry.iter().position(|knob| knob.number == number),
            Err(_) => names::find(name, self.registry.iter().map(|knob| knob.name)),
        };
        match found {
            Some(index) => Ok(self.registry[index]),
            None => Err(KnobError::Unknown {
                name: name.to_owned(),
                suggestion: names::suggestion(name, self.registry.iter().map(|knob| knob.name)),
            }),
        }
    }

    /// Whether anybody set the knob.
    pub fn is_set<T: ?Sized>(&self, key: &Key<T>) -> bool {
        self.set.contains_key(&key.knob.number)
    }

    /// The value of a truth knob.
    pub fn bool(&self, key: &Key<bool>) -> bool {
        match (self.set.get(&key.knob.number), key.knob.default) {
            (Some(&Value::Bool(value)), _) | (_, DefaultValue::Bool(value)) => value,
            _ => false,
        }
    }

    /// The value of a knob that is a whole number.
    pub fn int(&self, key: &Key<i64>) -> i64 {
        match (self.set.get(&key.knob.number), key.knob.default) {
            (Some(&Value::Int(value)), _) | (_, DefaultValue::Int(value)) => value,
            _ => 0,
        }
    }

    /// The value of a knob that is a number.
    pub fn double(&self, key: &Key<f64>) -> f64 {
        match (self.set.get(&key.knob.number), key.knob.default) {
            (Some(&Value::Double(value)), _) | (_, DefaultValue::Double(value)) => value,
            _ => 0.0,
        }
    }

    /// The value of a knob that is a text.
    pub fn text(&self, key: &Key<str>) -> &str {
        match (self.set.get(&key.knob.number), key.knob.default) {
            (Some(Value::Text(value)), _) => value,
            (_, DefaultValue::Text(value)) => value,
            _ => "",
        }
    }

    /// The value of a knob that is a list of conditions.
    pub fn when(&self, key: &Key<WhenList>) -> &WhenList {
        match self.set.get(&key.knob.number) {
            Some(Value::When(list)) => list,
            _ => &self.never,
        }
    }
}

/// `text` as a value of `knob`'s type.
fn read_value(knob: &'static Knob, text: &str) -> Result<Value, KnobError> {
    let wrong = |expected| KnobError::WrongType {
        knob: knob.name,
        expected,
        value: text.to_owned(),
    };
    match knob.default {
        DefaultValue::Bool(_) => match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "on" | "yes" => Ok(Value::Bool(true)),
            "0" | "false" | "off" | "no" => Ok(Value::Bool(false)),
            _ => Err(wrong("a bool (true or false)")),
        },
        DefaultValue::Int(_) => read_int(text)
            .map(Value::Int)
            .ok_or_else(|| wrong("an int (a whole number)")),
        DefaultValue::Double(_) => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Value::Double(value)),
            _ => Err(wrong("a double (a finite number)")),
        },
        DefaultValue::Text(_) => Ok(Value::Text(text.to_owned())),
        DefaultValue::Never => {
            WhenList::parse(text)
                .map(Value::When)
                .map_err(|error| KnobError::When {
                    knob: knob.name,
                    error,
                })
        }
    }
}

fn read_int(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with(['+', '-']) => i64::from_str_radix(digits, 16).ok(),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knobs::Point;

    static FLAG: Key<bool> = Key::<bool>::new(487, "Enable", true, "P", "");
    static COUNT: Key<i64> = Key::<i64>::new(770, "SchedReadAvailTarget", 4, "P", "");
    static FACTOR: Key<f64> = Key::<f64>::new(740, "SchedBumpScaleAugmentFactor", 0.045, "P", "");
    static ITERATIONS: Key<str> = Key::<str>::new(750, "SchedEstimatedLoopIterations", "", "P", "");
    static FENCE: Key<WhenList> = Key::<WhenList>::new(313, "FenceCode", "P", "");
    static REGISTRY: &[&Knob] = &[
        &FENCE.knob,
        &FLAG.knob,
        &FACTOR.knob,
        &ITERATIONS.knob,
        &COUNT.knob,
    ];

    fn knobs() -> Knobs {
        Knobs::new(REGISTRY)
    }

    fn error(assignment: &str) -> String {
        knobs().set(assignment).expect_err(assignment).to_string()
    }

    #[test]
    fn knobs_that_nobody_sets_have_their_defaults() {
        let knobs = knobs();
        assert!(knobs.bool(&FLAG));
        assert_eq!(knobs.int(&COUNT), 4);
        assert!((knobs.double(&FACTOR) - 0.045).abs() < f64::EPSILON);
        assert_eq!(knobs.text(&ITERATIONS), "");
        assert!(knobs.when(&FENCE).is_never());
        assert!(!knobs.is_set(&COUNT));
    }

    #[test]
    fn knobs_are_set_by_name_in_any_case_and_by_number() {
        let mut knobs = knobs();
        for assignment in [
            "enable=off",
            "770=0x10",
            "SchedBumpScaleAugmentFactor = -1.5",
            "750=4, 2=6",
            "FenceCode=WHEN=op:BAR*&block:2",
        ] {
            knobs.set(assignment).expect(assignment);
        }
        assert!(!knobs.bool(&FLAG));
        assert_eq!(knobs.int(&COUNT), 16);
        assert!((knobs.double(&FACTOR) + 1.5).abs() < f64::EPSILON);
        assert_eq!(knobs.text(&ITERATIONS), "4, 2=6");
        assert!(knobs.when(&FENCE).holds(Point {
            function: "f",
            block: 2,
            instruction: Some((0, "BAR.SYNC"))
        }));
        assert!(knobs.is_set(&COUNT));
        knobs.set("770=5").expect("a second value");
        assert_eq!(knobs.int(&COUNT), 5);
    }

    #[test]
    fn a_wrong_setting_is_an_error_with_a_suggestion() {
        for (assignment, message) in [
            ("FenceCode", "'FenceCode': a knob is set by NAME=VALUE"),
            (
                "FenceCod=never",
                "no knob is named 'FenceCod', did you mean 'FenceCode'?",
            ),
            ("Zebra=1", "no knob is named 'Zebra'"),
            ("771=1", "no knob is named '771'"),
            (
                "Enable=maybe",
                "knob Enable is a bool (true or false), which 'maybe' is not",
            ),
            (
                "770=4.5",
                "knob SchedReadAvailTarget is an int (a whole number), which '4.5' is not",
            ),
            (
                "770=",
                "knob SchedReadAvailTarget is an int (a whole number), which '' is not",
            ),
            (
                "770=0x-4",
                "knob SchedReadAvailTarget is an int (a whole number), which '0x-4' is not",
            ),
            (
                "740=nan",
                "knob SchedBumpScaleAugmentFactor is a double (a finite number), which 'nan' is not",
            ),
            (
                "313=LDG",
                "knob FenceCode: 'LDG': expected 'never', 'always' or 'WHEN=...'",
            ),
        ] {
            assert_eq!(error(assignment), message, "{assignment}");
        }
    }

    #[test]
    fn a_file_sets_all_of_its_knobs_or_none() {
        let mut knobs = knobs();
        knobs
            .set_from_file("# comment\n\n770 = 8\nEnable=false\n")
            .expect("a good file");
        assert_eq!(knobs.int(&COUNT), 8);
        let error = knobs
            .set_from_file("770=9\nEnabel=1\n")
            .expect_err("a bad file");
        assert_eq!(
            error.to_string(),
            "line 2: no knob is named 'Enabel', did you mean 'Enable'?"
        );
        assert_eq!(knobs.int(&COUNT), 8);
    }

    #[test]
    fn the_registry_is_sorted_by_number_and_names_are_unique() {
        for pair in KNOBS.windows(2) {
            assert!(pair[0].number < pair[1].number);
        }
        for (index, knob) in KNOBS.iter().enumerate() {
            assert_eq!(
                names::find(knob.name, KNOBS.iter().map(|knob| knob.name)),
                Some(index)
            );
        }
    }
}
