-- Rows are the fields of one hash for each class: whose, number and record. Beside it are the orders they are asked for
-- in. KEYS[1] is the one key that every ledger has; all others begin with ARGV[1] and have the same hash tag.
local base = ARGV[1]
local meta = KEYS[1]
-- The classes that are listed.
local listed = { sanction = true, violation = true, override = true, tenant = true, failures = true, audit = true }

local function index(name, class, score, key)
  if score == '' then
    redis.call('ZREM', base .. name .. ':' .. class, key)
  else
    redis.call('ZADD', base .. name .. ':' .. class, score, key)
  end
end

local function forget(class, key, whom)
  redis.call('HDEL', base .. 'rows:' .. class, key)
  index('number', class, '', key)
  index('until', class, '', key)
  index('since', class, '', key)
  redis.call('ZREM', base .. 'changes', class .. ':' .. key)
  if whom ~= '-' then
    redis.call('ZREM', base .. 'whom:' .. class .. ':' .. whom, key)
  end
end

local function count(field, by)
  return string.format('%.0f', tonumber(redis.call('HGET', meta, field) or '0') + by)
end
