//! Decoding of replies to the caller's types.

use std::{collections::HashMap, hash::Hash};

use bytes::Bytes;

use crate::{error::RedisError, protocol::Value};

/// A type that a reply can be decoded to. An error reply becomes [`RedisError::Server`], also inside
/// aggregates; only [`Value`] keeps errors inside aggregates.
pub trait FromValue: Sized {
    /// Decodes a reply.
    ///
    /// # Errors
    /// [`RedisError::WrongType`], or [`RedisError::Server`].
    fn from_value(value: Value) -> Result<Self, RedisError>;
}

fn wrong<T>(wanted: &'static str, value: Value) -> Result<T, RedisError> {
    match value {
        Value::Error(error) => Err(RedisError::Server(error)),
        value => Err(RedisError::WrongType {
            wanted,
            came: value.kind(),
        }),
    }
}

impl FromValue for Value {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        match value {
            Value::Error(error) => Err(RedisError::Server(error)),
            value => Ok(value),
        }
    }
}

/// Any reply except an error.
impl FromValue for () {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        Value::from_value(value).map(drop)
    }
}

impl FromValue for Bytes {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        match value {
            Value::Bulk(bytes)
            | Value::Simple(bytes)
            | Value::BigNumber(bytes)
            | Value::Verbatim { text: bytes, .. } => Ok(bytes),
            value => wrong("a string", value),
        }
    }
}

/// The bytes of a string, not an array of numbers.
impl FromValue for Vec<u8> {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        Bytes::from_value(value).map(Self::from)
    }
}

impl FromValue for String {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        let bytes = Bytes::from_value(value)?;
        String::from_utf8(bytes.into()).map_err(|_| RedisError::WrongType {
            wanted: "a text in UTF-8",
            came: "a string of other bytes",
        })
    }
}

/// An integer reply, or its decimal digits.
fn number<T: TryFrom<i64> + std::str::FromStr>(
    wanted: &'static str,
    value: Value,
) -> Result<T, RedisError> {
    match &value {
        Value::Integer(number) => T::try_from(*number).ok(),
        Value::Bulk(text) | Value::Simple(text) | Value::BigNumber(text) => parsed(text),
        _ => None,
    }
    .map_or_else(|| wrong(wanted, value), Ok)
}

fn parsed<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok()?.parse().ok()
}

macro_rules! integers {
    ($($kind:ty: $wanted:literal,)+) => {$(
        impl FromValue for $kind {
            fn from_value(value: Value) -> Result<Self, RedisError> {
                number($wanted, value)
            }
        }
    )+};
}

integers! {
    i64: "a number",
    u64: "a number that is not negative",
}

impl FromValue for f64 {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        match &value {
            Value::Double(number) => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            Value::Bulk(text) | Value::Simple(text) => parsed(text),
            _ => None,
        }
        .map_or_else(|| wrong("a number", value), Ok)
    }
}

impl FromValue for bool {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        match value {
            Value::Boolean(is_so) => Ok(is_so),
            Value::Integer(0) | Value::Null => Ok(false),
            Value::Integer(1) => Ok(true),
            Value::Simple(text) if text == "OK" => Ok(true),
            value => wrong("yes or no", value),
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

fn elements(value: Value) -> Result<Vec<Value>, RedisError> {
    match value {
        Value::Array(values) | Value::Set(values) | Value::Push(values) => Ok(values),
        value => wrong("an array", value),
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        elements(value)?.into_iter().map(T::from_value).collect()
    }
}

macro_rules! tuples {
    ($(($($kind:ident $part:ident),+))+) => {$(
        impl<$($kind: FromValue),+> FromValue for ($($kind),+) {
            fn from_value(value: Value) -> Result<Self, RedisError> {
                let parts = <[Value; [$(stringify!($part)),+].len()]>::try_from(elements(value)?);
                let [$($part),+] = parts.map_err(|_| RedisError::WrongType {
                    wanted: "an array with an element for each of the tuple's",
                    came: "an array of another length",
                })?;
                Ok(($($kind::from_value($part)?),+))
            }
        }
    )+};
}

tuples! {
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
}

/// A map, or an array of alternating keys and values.
impl<K: FromValue + Eq + Hash, V: FromValue> FromValue for HashMap<K, V> {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        let pair = |key, value| Ok((K::from_value(key)?, V::from_value(value)?));
        match value {
            Value::Map(pairs) => pairs.into_iter().map(|(k, v)| pair(k, v)).collect(),
            Value::Array(values) if values.len().is_multiple_of(2) => {
                let mut values = values.into_iter();
                let next = || Some(pair(values.next()?, values.next()?));
                std::iter::from_fn(next).collect()
            }
            value => wrong("a map", value),
        }
    }
}
