//! The cubin container: the ELF file that NVIDIA's driver loads.
//!
//! **For:** a model of the file (functions, symbols, `.nv.info` attributes, constant banks, data, relocations, notes), its
//! reader and its writer.
//!
//! **May know:** ELF and NVIDIA's sections and attributes.
//!
//! **Must never know:** what the bytes of a text section mean. It depends on no other room.
