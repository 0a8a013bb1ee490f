//! Where the objects are: a directory, or a service in the cloud.
//!
//! All calls block. An object is written whole or not at all. Errors have the kind `NotFound` only if the object is
//! missing; a missing bucket is another error.

use std::{
    fmt, fs,
    future::Future,
    io,
    ops::Range,
    path::{Path as FilePath, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use futures_util::TryStreamExt;
use object_store::{
    BackoffConfig, ClientConfigKey, Error, ObjectStore, ObjectStoreExt, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    multipart::{MultipartStore, PartId},
    path::Path,
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    log::PREPARING,
    storage::{Access, Disk, Storage},
};

/// The time limit of one request unless the environment sets one, such as `AWS_TIMEOUT`. A part of 8 MiB passes at 70 KB/s.
const REQUEST_TIME: &str = "120 seconds";

/// The most attempts to repeat one request.
const RETRIES_MAX: usize = 20;

/// The suffix of a file whose parts are being written.
const UPLOADING: &str = ".uploading";

/// The objects of an archive, by name.
pub(super) trait Objects: fmt::Debug + Send + Sync {
    /// The objects of a folder.
    fn folder(&self, name: &str) -> Arc<dyn Objects>;
    /// The names and lengths of all objects.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    fn bytes(&self, name: &str) -> io::Result<u64>;
    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;
    fn write(&self, name: &str, bytes: Vec<u8>) -> io::Result<()>;
    /// Removes an object; it need not exist.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Begins to upload an object in parts. Returns the upload's id.
    fn begin(&self, name: &str) -> io::Result<String>;
    /// Uploads a part, durably. Returns its tag, by which the end names it.
    fn part(&self, name: &str, id: &str, at: PartAt, bytes: Vec<u8>) -> io::Result<String>;
    /// Makes the object of its parts.
    fn complete(&self, name: &str, id: &str, tags: Vec<String>) -> io::Result<()>;
    /// Discards the parts of an upload that will not be completed.
    fn abandon(&self, name: &str, id: &str) -> io::Result<()>;
}

/// The position of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartAt {
    pub(super) index: usize,
    pub(super) offset: u64,
}

/// A directory, on another disk or another machine.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: &FilePath) -> Self {
        Self(path.to_owned())
    }

    /// It is created by the first write.
    fn disk(&self) -> io::Result<Disk> {
        Disk::create(&self.0)
    }
}

impl Objects for Folder {
    fn folder(&self, name: &str) -> Arc<dyn Objects> {
        Arc::new(Self(self.0.join(name)))
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let disk = match Disk::open(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            disk => disk?,
        };
        let names = disk.list()?.into_iter();
        let with_bytes = |name: String| match self.bytes(&name) {
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            bytes => Some(bytes.map(|bytes| (name, bytes))),
        };
        names.filter_map(with_bytes).collect()
    }

    fn bytes(&self, name: &str) -> io::Result<u64> {
        fs::metadata(self.0.join(name)).map(|metadata| metadata.len())
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let file = Disk::open(&self.0)?.open(name, Access::Read)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = file.read_at(&mut bytes, range.start)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn write(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        let disk = self.disk()?;
        let unfinished = format!("{name}{PREPARING}");
        // An attempt that was killed may have left it.
        let _ = disk.remove(&unfinished);
        let file = disk.create(&unfinished, 0, Access::Cached)?;
        file.write_at(&[&bytes], 0)?;
        file.sync()?;
        disk.rename(&unfinished, name)?;
        disk.sync_directory()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let disk = self.disk()?;
        found(disk.remove(name))?;
        disk.sync_directory()
    }

    fn begin(&self, name: &str) -> io::Result<String> {
        let disk = self.disk()?;
        let unfinished = format!("{name}{UPLOADING}");
        let _ = disk.remove(&unfinished);
        disk.create(&unfinished, 0, Access::Cached)?;
        Ok(unfinished)
    }

    fn part(&self, _name: &str, id: &str, at: PartAt, bytes: Vec<u8>) -> io::Result<String> {
        let file = self.disk()?.open(id, Access::Cached)?;
        file.write_at(&[&bytes], at.offset)?;
        file.sync()?;
        Ok(at.index.to_string())
    }

    fn complete(&self, name: &str, id: &str, _tags: Vec<String>) -> io::Result<()> {
        let disk = self.disk()?;
        disk.open(id, Access::Cached)?.sync()?;
        disk.rename(id, name)?;
        disk.sync_directory()
    }

    fn abandon(&self, _name: &str, id: &str) -> io::Result<()> {
        found(self.disk()?.remove(id))
    }
}

/// No error if it is the absence of what was to be removed.
fn found(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Both interfaces of a service.
trait Service: ObjectStore + MultipartStore {}

impl<S: ObjectStore + MultipartStore> Service for S {}

/// A bucket or container in the cloud.
pub(super) struct Cloud {
    service: Arc<dyn Service>,
    prefix: Path,
    background: Arc<Background>,
}

/// The runtime of the requests; `None` only while it is dropped.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        // An ordinary drop panics inside another runtime.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Cloud {
    /// `settings` override the environment. A failed request is repeated for `retry_time`.
    pub(super) fn open(
        scheme: &str,
        url: &str,
        prefix: &str,
        settings: &[(String, String)],
        retry_time: Duration,
    ) -> io::Result<Self> {
        // The first provider of the process stays. A library must not choose for a program that has chosen.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: RETRIES_MAX,
            retry_timeout: retry_time,
        };
        macro_rules! service {
            ($builder:ty, $key:ty, $environment:literal) => {{
                let timeout = <$key>::Client(ClientConfigKey::Timeout);
                let mut builder = <$builder>::new().with_url(url).with_retry(retry);
                builder = builder.with_config(timeout, REQUEST_TIME);
                let environment = std::env::vars_os().filter_map(|(name, value)| {
                    let name = name.into_string().ok()?;
                    let is_meant = name.starts_with($environment);
                    Some((name, value.into_string().ok()?)).filter(|_| is_meant)
                });
                for (name, value) in environment.chain(settings.iter().cloned()) {
                    if let Ok(key) = name.to_ascii_lowercase().parse::<$key>() {
                        builder = builder.with_config(key, value);
                    }
                }
                Arc::new(builder.build().map_err(explained)?)
            }};
        }
        let service: Arc<dyn Service> = match scheme {
            "s3" => service!(AmazonS3Builder, AmazonS3ConfigKey, "AWS_"),
            "gs" => service!(GoogleCloudStorageBuilder, GoogleConfigKey, "GOOGLE_"),
            _ => service!(MicrosoftAzureBuilder, AzureConfigKey, "AZURE_"),
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("archive")
            .enable_all()
            .build()?;
        Ok(Self {
            service,
            prefix: Path::from(prefix),
            background: Arc::new(Background(Some(runtime))),
        })
    }

    fn path(&self, name: &str) -> Path {
        self.prefix.clone().join(name)
    }

    /// Runs a call on the runtime's thread, so that the caller may be a thread of any runtime.
    fn call<T: Send + 'static, F>(&self, call: impl FnOnce(Arc<dyn Service>) -> F) -> io::Result<T>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let runtime = self.background.0.as_ref().expect("it is not dropped yet");
        let (sender, result) = mpsc::sync_channel(1);
        let future = call(self.service.clone());
        runtime.spawn(async move {
            // Nobody waits any more only if this thread has panicked.
            let _ = sender.send(future.await);
        });
        let result = result
            .recv()
            .map_err(|_| io::Error::other("the call panicked"))?;
        result.map_err(explained)
    }
}

impl fmt::Debug for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cloud({}, {})", self.service, self.prefix)
    }
}

impl Objects for Cloud {
    fn folder(&self, name: &str) -> Arc<dyn Objects> {
        Arc::new(Self {
            service: self.service.clone(),
            prefix: self.path(name),
            background: self.background.clone(),
        })
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let prefix = self.prefix.clone();
        let names = self.call(|service| async move {
            let listed = service.list(Some(&prefix));
            let name = |object: object_store::ObjectMeta| {
                let mut parts = object.location.prefix_match(&prefix)?;
                let name = parts.next()?.as_ref().to_owned();
                // Objects of folders below are others'.
                parts.next().is_none().then_some((name, object.size))
            };
            listed.map_ok(name).try_collect::<Vec<_>>().await
        })?;
        Ok(names.into_iter().flatten().collect())
    }

    fn bytes(&self, name: &str) -> io::Result<u64> {
        let path = self.path(name);
        self.call(|service| async move { Ok(service.head(&path).await?.size) })
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let path = self.path(name);
        self.call(|service| async move { Ok(service.get_range(&path, range).await?.into()) })
    }

    fn write(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        let path = self.path(name);
        self.call(|service| async move { service.put(&path, bytes.into()).await.map(drop) })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        found(self.call(|service| async move { service.delete(&path).await }))
    }

    fn begin(&self, name: &str) -> io::Result<String> {
        let path = self.path(name);
        self.call(|service| async move { service.create_multipart(&path).await })
    }

    fn part(&self, name: &str, id: &str, at: PartAt, bytes: Vec<u8>) -> io::Result<String> {
        let (path, id) = (self.path(name), id.to_owned());
        self.call(|service| async move {
            let part = service.put_part(&path, &id, at.index, bytes.into()).await;
            part.map(|part| part.content_id)
        })
    }

    fn complete(&self, name: &str, id: &str, tags: Vec<String>) -> io::Result<()> {
        let (path, id) = (self.path(name), id.to_owned());
        let parts = tags.into_iter().map(|content_id| PartId { content_id });
        let parts = parts.collect();
        let complete = |service: Arc<dyn Service>| async move {
            let done = service.complete_multipart(&path, &id, parts).await;
            done.map(drop)
        };
        self.call(complete)
    }

    fn abandon(&self, name: &str, id: &str) -> io::Result<()> {
        let (path, id) = (self.path(name), id.to_owned());
        found(self.call(|service| async move { service.abort_multipart(&path, &id).await }))
    }
}

/// Says in a sentence what a service answered.
fn explained(error: Error) -> io::Error {
    let text = error.to_string();
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0.to_owned())
    };
    let (code, message) = (element("Code"), element("Message"));
    let said = match (&code, message) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => text.clone(),
    };
    // A refused listing has no kind of its own.
    let is_refused = matches!(
        error,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. }
    ) || ["status code: 401", "status code: 403"]
        .iter()
        .any(|status| text.contains(status));
    let (kind, reason) = match (&error, code.as_deref()) {
        (_, Some("NoSuchBucket" | "ContainerNotFound")) => {
            (io::ErrorKind::Other, "the bucket does not exist".to_owned())
        }
        (Error::NotFound { .. }, _) => (
            io::ErrorKind::NotFound,
            "there is no such object".to_owned(),
        ),
        _ if is_refused => (
            io::ErrorKind::PermissionDenied,
            format!("the service refuses the credentials ({said})"),
        ),
        _ => (io::ErrorKind::Other, said),
    };
    io::Error::new(kind, reason)
}
