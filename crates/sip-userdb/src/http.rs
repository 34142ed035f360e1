pub(crate) use crate::absent::Client;
