//! Modules: functions that are compiled together.

use crate::function::Function;

/// The functions of one translation unit, in the order of the source.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// The functions.
    pub functions: Vec<Function>,
}

impl Module {
    /// The function of that name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|func| func.name == name)
    }
}
