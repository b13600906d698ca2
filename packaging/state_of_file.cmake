# Sets `state` to what tells the file `path` from others: where a link leads, the hash of a file, or `gone`.
set(state gone)
if(IS_SYMLINK "${path}")
  file(READ_SYMLINK "${path}" state)
  string(SHA256 state "link ${state}")
elseif(EXISTS "${path}")
  file(SHA256 "${path}" state)
endif()
