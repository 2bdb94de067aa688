-- ARGV: base, the secret's fingerprint, that of the previous one or nothing, the newest format that is known. Answers the
-- format and the fingerprint that are there then.
local format = redis.call('HGET', meta, 'format')
local secret = redis.call('HGET', meta, 'secret')
if (not format or tonumber(format) <= tonumber(ARGV[4])) and (not secret or secret == ARGV[3]) then
  redis.call('HSET', meta, 'format', ARGV[4], 'secret', ARGV[2])
end
return { redis.call('HGET', meta, 'format'), redis.call('HGET', meta, 'secret') }
