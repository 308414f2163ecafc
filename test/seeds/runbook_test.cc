#include "seeds/seed_fixture.h"
