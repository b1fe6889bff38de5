//! Conversions between Rust values and both databases' parameters and columns.

use smallvec::SmallVec;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// A parameter or a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

pub(crate) type Values<'a> = SmallVec<[Value<'a>; 16]>;

/// A type that can be a parameter.
pub(crate) trait Param {
    fn value(&self) -> Value<'_>;
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Param for $kind {
            fn value(&self) -> Value<'_> {
                Value::Int(i64::from(*self))
            }
        }
        impl FromValue for $kind {
            fn from_value(value: Value<'_>) -> Option<Self> {
                match value {
                    Value::Int(number) => number.try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}
integers!(i64, u32, u8);

impl Param for bool {
    fn value(&self) -> Value<'_> {
        Value::Int(i64::from(*self))
    }
}

impl Param for str {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl Param for String {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl Param for Vec<u8> {
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl<const N: usize> Param for [u8; N] {
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl<T: Param> Param for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Param::value)
    }
}

impl<T: Param + ?Sized> Param for &T {
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

/// A type that can be read from a column.
pub(crate) trait FromValue: Sized {
    fn from_value(value: Value<'_>) -> Option<Self>;
}

impl FromValue for bool {
    fn from_value(value: Value<'_>) -> Option<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl FromValue for String {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Blob(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

impl<const N: usize> FromValue for [u8; N] {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Blob(bytes) => bytes.try_into().ok(),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// The parameters of one statement.
pub(crate) trait Params {
    fn values(&self) -> Values<'_>;
}

impl<T: Param, const N: usize> Params for [T; N] {
    fn values(&self) -> Values<'_> {
        self.iter().map(Param::value).collect()
    }
}

impl Params for &[&dyn Param] {
    fn values(&self) -> Values<'_> {
        self.iter().map(|param| param.value()).collect()
    }
}

macro_rules! params {
    ($($param:expr),* $(,)?) => {
        &[$(&$param as &dyn $crate::engine::values::Param),*] as &[&dyn $crate::engine::values::Param]
    };
}
pub(crate) use params;

/// One row of parameters for `change_many` and `query_many`.
macro_rules! row {
    ($($param:expr),* $(,)?) => {
        smallvec::smallvec![$($crate::engine::values::Value::from($param)),*]
    };
}
pub(crate) use row;

macro_rules! values {
    ($($kind:ty => $make:expr),*) => {$(
        impl<'a> From<$kind> for Value<'a> {
            fn from(value: $kind) -> Self {
                $make(value)
            }
        }
    )*};
}
values! {
    i64 => Value::Int,
    u32 => |number| Value::Int(i64::from(number)),
    u8 => |number| Value::Int(i64::from(number)),
    &'a str => Value::Text,
    &'a String => |text: &'a String| Value::Text(text)
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Blob(bytes)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value<'_> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

type Refused = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for Value<'_> {
    fn to_sql(&self, kind: &Type, out: &mut bytes::BytesMut) -> std::result::Result<IsNull, Refused> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) if *kind == Type::BOOL => (*number != 0).to_sql(kind, out),
            Self::Int(number) if *kind == Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
            Self::Int(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Blob(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::BOOL, Type::INT4, Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> std::result::Result<Self, Refused> {
        Ok(match *kind {
            Type::BOOL => Self::Int(i64::from(bool::from_sql(kind, raw)?)),
            Type::INT4 => Self::Int(i64::from(i32::from_sql(kind, raw)?)),
            Type::INT8 => Self::Int(i64::from_sql(kind, raw)?),
            Type::BYTEA => Self::Blob(<&[u8]>::from_sql(kind, raw)?),
            _ => Self::Text(<&str>::from_sql(kind, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> std::result::Result<Self, Refused> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        <Value<'_> as ToSql>::accepts(kind)
    }
}
