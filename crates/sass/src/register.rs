//! Register classes and registers.

use std::fmt;

/// A register file of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RegisterClass {
    /// General registers, 32 bits per lane: `R0`…`R254` and `RZ`.
    R,
    /// Predicates, one bit per lane: `P0`…`P6` and `PT`.
    P,
    /// Uniform registers, 32 bits per warp: `UR0`…`UR62` and `URZ`.
    UR,
    /// Uniform predicates, one bit per warp: `UP0`…`UP6` and `UPT`.
    UP,
    /// Convergence barriers: `B0`…`B15`.
    B,
}

impl RegisterClass {
    /// Every class, in the order of their discriminants.
    pub const ALL: [RegisterClass; 5] = [
        RegisterClass::R,
        RegisterClass::P,
        RegisterClass::UR,
        RegisterClass::UP,
        RegisterClass::B,
    ];

    /// How many bits an encoding spends on an index of this class.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            RegisterClass::R => 8,
            RegisterClass::P | RegisterClass::UP => 3,
            RegisterClass::UR => 6,
            RegisterClass::B => 4,
        }
    }

    /// The index that reads as zero (or true) and swallows writes, where the class has one.
    #[must_use]
    pub const fn constant_index(self) -> Option<u8> {
        match self {
            RegisterClass::R => Some(255),
            RegisterClass::P | RegisterClass::UP => Some(7),
            RegisterClass::UR => Some(63),
            RegisterClass::B => None,
        }
    }

    /// What the class's registers are called before their number.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            RegisterClass::R => "R",
            RegisterClass::P => "P",
            RegisterClass::UR => "UR",
            RegisterClass::UP => "UP",
            RegisterClass::B => "B",
        }
    }
}

/// A physical register: a class and an index within it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register {
    /// The register file.
    pub class: RegisterClass,
    /// The index within it, including the constant register of the class.
    pub index: u8,
}

impl Register {
    /// The general register that is always zero.
    pub const RZ: Register = Register::new(RegisterClass::R, 255);
    /// The predicate that is always true.
    pub const PT: Register = Register::new(RegisterClass::P, 7);
    /// The uniform register that is always zero.
    pub const URZ: Register = Register::new(RegisterClass::UR, 63);
    /// The uniform predicate that is always true.
    pub const UPT: Register = Register::new(RegisterClass::UP, 7);

    /// Register `index` of `class`. An index the class does not have is refused when an instruction is checked.
    #[must_use]
    pub const fn new(class: RegisterClass, index: u8) -> Self {
        Register { class, index }
    }

    /// General register `index`.
    #[must_use]
    pub const fn r(index: u8) -> Self {
        Register::new(RegisterClass::R, index)
    }

    /// Predicate `index`.
    #[must_use]
    pub const fn p(index: u8) -> Self {
        Register::new(RegisterClass::P, index)
    }

    /// Uniform register `index`.
    #[must_use]
    pub const fn ur(index: u8) -> Self {
        Register::new(RegisterClass::UR, index)
    }

    /// Uniform predicate `index`.
    #[must_use]
    pub const fn up(index: u8) -> Self {
        Register::new(RegisterClass::UP, index)
    }

    /// Convergence barrier `index`.
    #[must_use]
    pub const fn b(index: u8) -> Self {
        Register::new(RegisterClass::B, index)
    }

    /// The next register of the class; the constant register has none and stays.
    #[must_use]
    pub fn after(self) -> Self {
        if self.is_constant() {
            self
        } else {
            Register::new(self.class, self.index.saturating_add(1))
        }
    }

    /// Whether this is RZ, PT, URZ or UPT.
    #[must_use]
    pub fn is_constant(self) -> bool {
        self.class.constant_index() == Some(self.index)
    }

    /// Whether the class has a register with this index.
    #[must_use]
    pub const fn exists(self) -> bool {
        (self.index as u16) < 1 << self.class.bits()
    }

    /// Reads a register's name: `R12`, `RZ`, `UP3`, `B6`. Numbers have no leading zeros.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "RZ" => return Some(Self::RZ),
            "PT" => return Some(Self::PT),
            "URZ" => return Some(Self::URZ),
            "UPT" => return Some(Self::UPT),
            _ => {}
        }
        let digits = name.find(|c: char| c.is_ascii_digit())?;
        let (prefix, number) = name.split_at(digits);
        let class = RegisterClass::ALL
            .into_iter()
            .find(|class| class.prefix() == prefix)?;
        if number.len() > 1 && number.starts_with('0') {
            return None;
        }
        let register = Register::new(class, number.parse().ok()?);
        (register.exists() && !register.is_constant()).then_some(register)
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class.prefix())?;
        if self.is_constant() {
            f.write_str(match self.class {
                RegisterClass::P | RegisterClass::UP => "T",
                _ => "Z",
            })
        } else {
            write!(f, "{}", self.index)
        }
    }
}

impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
