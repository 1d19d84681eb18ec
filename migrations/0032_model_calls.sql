-- Calls of models: what each holds in the budgets that pay, and who was refused.

-- `held`: set apart for calls in progress; neither free nor spent.
ALTER TABLE purses ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0);
ALTER TABLE task_purses ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0);

-- One reservation. Open while `ended` is null: estimated at `due`, unless it is noted or settled before.
-- `charged` is JSON: what it cost, and which budgets paid. Prices are per million tokens.
CREATE TABLE model_calls (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    sub TEXT NOT NULL,
    alias TEXT NOT NULL,
    wire TEXT NOT NULL,
    tier TEXT NOT NULL,
    task TEXT NOT NULL,
    hand_back INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    price_in REAL NOT NULL,
    price_out REAL NOT NULL,
    begun REAL NOT NULL,
    due REAL,
    ended REAL,
    status TEXT NOT NULL,
    charged TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX model_calls_due ON model_calls (due) WHERE due IS NOT NULL;
CREATE INDEX model_calls_ended ON model_calls (ended) WHERE ended IS NOT NULL;
CREATE INDEX model_calls_task ON model_calls (task) WHERE hand_back = 1;

-- What an open call holds. `holder` is the agent of a budget, or a task that has a budget of its own.
CREATE TABLE model_holds (
    call TEXT NOT NULL,
    holder TEXT NOT NULL,
    kind TEXT NOT NULL,
    tier TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount > 0),
    PRIMARY KEY (call, holder, kind, tier)
) STRICT, WITHOUT ROWID;
CREATE INDEX model_holds_holder ON model_holds (holder, kind, tier);

-- Agents whose last call was refused for a budget, and what the call needed. They get a notice when the
-- budgets have room. `holder` is what had no room: an agent with a budget, or a task with one of its own.
-- Looked at next at `look_at`, or when that budget has more.
CREATE TABLE model_waiting (
    agent TEXT PRIMARY KEY,
    task TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    money INTEGER NOT NULL,
    holder TEXT NOT NULL,
    look_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX model_waiting_look ON model_waiting (look_at);
CREATE INDEX model_waiting_holder ON model_waiting (holder);
