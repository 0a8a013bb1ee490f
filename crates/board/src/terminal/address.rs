//! The address of a board: `http://HOST:PORT`, with or without a token.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// The address of a board. Displayed without its token.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Scheme, host and port.
    root: Url,
    token: Option<String>,
}

/// Why a text is not the address of a board.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It cannot be parsed.
    #[error("`{text}` is not the address of a board ({reason}): write http://HOST:PORT")]
    Unreadable {
        /// The given text.
        text: String,
        /// The reason.
        reason: String,
    },
    /// The scheme is not plain HTTP.
    #[error("a board speaks http, not {0}: to reach a remote one, forward its port through ssh")]
    Scheme(String),
    /// It has more than host, port and token.
    #[error("the address of a board is http://HOST:PORT/?token=TOKEN; it has no {0}")]
    Unexpected(String),
    /// The token is not valid in a header.
    #[error("the token is empty or has characters other than visible ASCII")]
    Token,
}

impl Address {
    /// Sets the token, unless it has one.
    ///
    /// # Errors
    /// [`AddressError::Token`].
    pub fn or_token(self, token: &str) -> Result<Self, AddressError> {
        let token = checked(token)?;
        Ok(Self {
            token: self.token.or(Some(token)),
            ..self
        })
    }

    /// The token, if there is one.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The URL of `path` with encoded parameters.
    pub(crate) fn url(&self, path: &str, parameters: &str) -> String {
        let mut url = self.root.clone();
        url.set_path(path);
        url.set_query(Some(parameters));
        url.into()
    }
}

fn checked(token: &str) -> Result<String, AddressError> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(AddressError::Token);
    }
    Ok(token.to_owned())
}

impl FromStr for Address {
    type Err = AddressError;

    /// Parses `http://HOST:PORT`. The scheme may be missing; a fragment is ignored, because it is the page's.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let whole = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let mut root = Url::parse(&whole).map_err(|error| AddressError::Unreadable {
            // The query may contain the token, which must not be shown.
            text: text.split('?').next().unwrap_or_default().to_owned(),
            reason: error.to_string(),
        })?;
        if root.scheme() != "http" {
            return Err(AddressError::Scheme(root.scheme().to_owned()));
        }
        if !root.username().is_empty() || root.password().is_some() {
            return Err(AddressError::Unexpected("user and password".to_owned()));
        }
        if root.path() != "/" {
            return Err(AddressError::Unexpected(format!("path {}", root.path())));
        }
        let mut token = None;
        for (name, value) in root.query_pairs() {
            if name != "token" {
                return Err(AddressError::Unexpected(format!("parameter {name}")));
            }
            token = Some(checked(&value)?);
        }
        root.set_query(None);
        root.set_fragment(None);
        Ok(Self { root, token })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.root.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Address({self})")
    }
}
