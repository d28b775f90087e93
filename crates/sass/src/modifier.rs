//! Modifiers of operations: fields whose values have names, and the names that code asks for them by.

use crate::table::Field;
use std::fmt;

/// One value of a modifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModifierValue {
    /// Its encoding.
    pub value: u16,
    /// What it is called.
    pub name: &'static str,
    /// Whether it is printed, as `.name`.
    pub printed: bool,
}

/// A modifier of an operation: a field of the word whose values have names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Modifier {
    /// What it is called in the table.
    pub name: &'static str,
    /// Where it is in the word.
    pub field: Field,
    /// Where it is in [`crate::Mods`].
    pub shift: u8,
    /// Its values, by encoding.
    pub values: &'static [ModifierValue],
}

impl Modifier {
    /// The value encoded as `value`.
    #[must_use]
    pub fn value(&self, value: u16) -> Option<&'static ModifierValue> {
        // Most modifiers name every value from 0 on, so the index is the encoding.
        match self.values.get(usize::from(value)) {
            Some(candidate) if candidate.value == value => Some(candidate),
            _ => self
                .values
                .iter()
                .find(|candidate| candidate.value == value),
        }
    }

    /// The value called `name`.
    #[must_use]
    pub fn value_named(&self, name: &str) -> Option<&'static ModifierValue> {
        self.values.iter().find(|candidate| candidate.name == name)
    }
}

/// The name of a modifier that some row has; [`crate::modifier_names`] holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModifierName(pub(crate) &'static str);

/// The name of a value that some modifier has; [`crate::modifier_values`] holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueName(pub(crate) &'static str);

impl ModifierName {
    /// As the tables write it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.0
    }
}

impl ValueName {
    /// As the tables write it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for ModifierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for ValueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Modifier {
    /// Its name, as code asks for it.
    #[must_use]
    pub const fn id(&self) -> ModifierName {
        ModifierName(self.name)
    }

    /// The value of that name, if this modifier has it.
    #[must_use]
    pub fn value_of(&self, name: ValueName) -> Option<&'static ModifierValue> {
        self.value_named(name.0)
    }

    /// The name of the value that is written so, if this modifier has one.
    #[must_use]
    pub fn value_name(&self, text: &str) -> Option<ValueName> {
        self.value_named(text).map(ModifierValue::id)
    }
}

impl ModifierValue {
    /// Its name, as code asks for it.
    #[must_use]
    pub const fn id(&self) -> ValueName {
        ValueName(self.name)
    }
}
