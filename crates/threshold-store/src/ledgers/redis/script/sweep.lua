-- ARGV: base, how many of each class at most, then classes and the latest time of what is dropped. Answers how many of
-- each were.
local dropped, any = {}, false
local at = 3
while ARGV[at] do
  local class = ARGV[at]
  local old = redis.call('ZRANGEBYSCORE', base .. 'since:' .. class, '-inf', ARGV[at + 1], 'LIMIT', 0, ARGV[2])
  for _, key in ipairs(old) do
    local value = redis.call('HGET', base .. 'rows:' .. class, key)
    forget(class, key, value and string.match(value, '^(%S+)') or '-')
    any = true
  end
  dropped[#dropped + 1] = #old
  at = at + 2
end
if any then
  redis.call('HSET', meta, 'revision', count('revision', 1))
end
return dropped
