//! The arguments of one request: its name first.

/// Where an argument stands among the bytes of its request. A request is shorter than 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    start: u32,
    end: u32,
}

impl Place {
    /// `None` beyond 4 GiB.
    pub(crate) fn new(start: usize, end: usize) -> Option<Self> {
        let (start, end) = (start.try_into().ok()?, end.try_into().ok()?);
        Some(Self { start, end })
    }
}

/// The arguments of one request, where they stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    bytes: &'a [u8],
    places: &'a [Place],
}

impl<'a> Arguments<'a> {
    pub(crate) const fn new(bytes: &'a [u8], places: &'a [Place]) -> Self {
        Self { bytes, places }
    }

    pub(crate) const fn len(&self) -> usize {
        self.places.len()
    }

    /// The argument with this number; the name is 0. Empty if there are fewer.
    pub(crate) fn get(&self, number: usize) -> &'a [u8] {
        let place = self.places.get(number);
        let bytes = place.and_then(|it| self.bytes.get(it.start as usize..it.end as usize));
        bytes.unwrap_or_default()
    }

    /// From this number on.
    pub(crate) fn from(&self, number: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let arguments = *self;
        (number..self.len()).map(move |number| arguments.get(number))
    }

    /// A copy that outlives the request.
    pub(crate) fn to_kept(self) -> KeptArguments {
        let mut bytes = Vec::new();
        let places = self.from(0).filter_map(|argument| {
            let start = bytes.len();
            bytes.extend_from_slice(argument);
            Place::new(start, bytes.len())
        });
        let places = places.collect();
        KeptArguments {
            bytes: bytes.into(),
            places,
        }
    }
}

/// Arguments of a request that is carried out later.
#[derive(Debug)]
pub(crate) struct KeptArguments {
    bytes: Box<[u8]>,
    places: Box<[Place]>,
}

impl KeptArguments {
    pub(crate) fn as_arguments(&self) -> Arguments<'_> {
        Arguments::new(&self.bytes, &self.places)
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + size_of_val::<[Place]>(&self.places)
    }
}
