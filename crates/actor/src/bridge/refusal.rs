//! An ask without a reply, as a status of HTTP and of gRPC.

use std::{error::Error, time::Duration};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::{bridge::TimeoutError, error::AskError};

/// A client's wait before it repeats a request that was refused because of overload.
pub const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

/// Why a request gets no reply, for its client.
///
/// | | HTTP | gRPC | from |
/// |---|---|---|---|
/// | `Overloaded` | 503 and `Retry-After` | `RESOURCE_EXHAUSTED` | `Full`, `Shed`, `NoThread` |
/// | `Expired` | 504 | `DEADLINE_EXCEEDED` | `Expired` |
/// | `Unavailable` | 503 and `Retry-After` | `UNAVAILABLE` | `Closed` |
/// | `Malformed` | 400 | `INVALID_ARGUMENT` | [`TimeoutError`] |
/// | `Failed` | 500 | `INTERNAL` | all others |
///
/// [`AskError::Shed`] counts as overload, because the message was not handled. [`AskError::NoReply`] does not: the handler
/// panicked or dropped its reply, and may have done a part of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The service has more requests than it can answer in time.
    #[error("the service is overloaded")]
    Overloaded,
    /// The deadline has passed.
    #[error("no answer before the deadline")]
    Expired,
    /// The actor has terminated.
    #[error("the service is unavailable")]
    Unavailable,
    /// The request's timeout cannot be read.
    #[error("the request is malformed")]
    Malformed,
    /// The program has an error.
    #[error("the service failed")]
    Failed,
}

impl<M> From<AskError<M>> for Refusal {
    fn from(error: AskError<M>) -> Self {
        Self::of(&error)
    }
}

impl Refusal {
    /// The refusal that this error means.
    pub fn of<M>(error: &AskError<M>) -> Self {
        match error {
            AskError::Full(_) | AskError::Shed | AskError::NoThread(_) => Self::Overloaded,
            AskError::Expired => Self::Expired,
            AskError::Closed(_) => Self::Unavailable,
            _ => Self::Failed,
        }
    }

    /// The refusal that an error of a stack of services means: a `Refusal` or a [`TimeoutError`] in it, else
    /// `Overloaded`, because tower's load shed is the usual layer above a service.
    pub fn of_layers(error: &(dyn Error + Send + Sync + 'static)) -> Self {
        match error.downcast_ref() {
            Some(refusal) => *refusal,
            None if error.is::<TimeoutError>() => Self::Malformed,
            None => Self::Overloaded,
        }
    }

    /// The status of HTTP.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Overloaded | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Expired => StatusCode::GATEWAY_TIMEOUT,
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The status code of gRPC, for example for `tonic::Code::from_i32`.
    pub const fn grpc_code(self) -> i32 {
        match self {
            Self::Malformed => 3,
            Self::Expired => 4,
            Self::Overloaded => 8,
            Self::Failed => 13,
            Self::Unavailable => 14,
        }
    }

    const fn may_be_repeated(self) -> bool {
        matches!(self, Self::Overloaded | Self::Unavailable)
    }

    /// An empty response of HTTP: the status, and `Retry-After` in whole seconds, at least one, if the client may repeat
    /// the request.
    pub fn response<B: Default>(self, retry_after: Duration) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = self.status();
        if self.may_be_repeated() {
            let seconds = retry_after.as_nanos().div_ceil(1_000_000_000).max(1);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    /// The trailers of gRPC, for example for `tonic::Status::from_header_map`: `grpc-status`, `grpc-message`, and
    /// `grpc-retry-pushback-ms` if the client may repeat the request. The last one is the `Retry-After` of gRPC (proposal
    /// A6), which clients with a retry policy obey.
    pub fn grpc_trailers(self, retry_after: Duration) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", self.grpc_code().into());
        // The message is percent-encoded in gRPC.
        let message = self.to_string().replace(' ', "%20");
        let message = HeaderValue::try_from(message).expect("visible characters");
        trailers.insert("grpc-message", message);
        if self.may_be_repeated() {
            // gRPC reads a number of 32 bits.
            let millis = retry_after.as_millis().min(i32::MAX as u128) as u64;
            trailers.insert("grpc-retry-pushback-ms", millis.into());
        }
        trailers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_status() {
        let table: [(AskError<u8>, u16, i32, Option<&str>); 7] = [
            (AskError::Full(1), 503, 8, Some("2")),
            (AskError::Shed, 503, 8, Some("2")),
            (AskError::NoThread(1), 503, 8, Some("2")),
            (AskError::Closed(1), 503, 14, Some("2")),
            (AskError::Expired, 504, 4, None),
            (AskError::NoReply, 500, 13, None),
            (AskError::NoLane(1), 500, 13, None),
        ];
        for (error, status, code, retry_after) in table {
            let refusal = Refusal::from(error.clone());
            let response = refusal.response::<()>(Duration::from_millis(1_100));
            assert_eq!(response.status(), status, "{error:?}");
            let header = response.headers().get("retry-after");
            let header = header.map(|it| it.to_str().expect("digits"));
            assert_eq!(header, retry_after, "{error:?}");
            let trailers = refusal.grpc_trailers(Duration::from_millis(1_100));
            assert_eq!(trailers["grpc-status"], code.to_string(), "{error:?}");
            let pushback = trailers.get("grpc-retry-pushback-ms");
            assert_eq!(pushback.is_some(), retry_after.is_some(), "{error:?}");
            assert!(pushback.is_none_or(|it| it == "1100"), "{error:?}");
        }
        let longest = Refusal::Overloaded.response::<()>(Duration::MAX);
        assert_eq!(
            longest.headers()["retry-after"],
            u64::MAX.to_string().as_str()
        );
        let at_once = Refusal::Overloaded.response::<()>(Duration::ZERO);
        assert_eq!(at_once.headers()["retry-after"], "1");
    }
}
