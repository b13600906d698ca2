#include "banyan/service/client/moving_executor.h"

#include <gtest/gtest.h>
