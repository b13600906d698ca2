# BANYAN_VERSION_TEXT: what programs and packages call themselves. A release is PROJECT_VERSION. Between two releases it
# is what the file VERSION of an archive says (packaging/version), such as 0.3.0.dev12+g1234abcd, and 0.3.0.dev0 in a
# checkout, so that a commit compiles nothing anew. Wheels give it.
if(NOT BANYAN_VERSION_TEXT)
  set(BANYAN_VERSION_TEXT ${PROJECT_VERSION})
  file(STRINGS ${PROJECT_SOURCE_DIR}/CHANGELOG.md latest LIMIT_COUNT 1 REGEX "^## ")
  if(EXISTS ${PROJECT_SOURCE_DIR}/VERSION)
    file(STRINGS ${PROJECT_SOURCE_DIR}/VERSION BANYAN_VERSION_TEXT LIMIT_COUNT 1 REGEX "^[^ ]+")
    string(REGEX MATCH "^[^ ]+" BANYAN_VERSION_TEXT "${BANYAN_VERSION_TEXT}")
  elseif(latest MATCHES "not released")
    string(APPEND BANYAN_VERSION_TEXT .dev0)
  endif()
endif()
# BANYAN_DATE: of the latest release, for manual pages.
file(STRINGS ${PROJECT_SOURCE_DIR}/CHANGELOG.md BANYAN_DATE LIMIT_COUNT 1 REGEX "^## .*[(][0-9-]+[)]$")
string(REGEX MATCH "[0-9]+-[0-9]+-[0-9]+" BANYAN_DATE "${BANYAN_DATE}")
