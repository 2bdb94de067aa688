# The limits of the edge of examples/grove/policy.toml, for Cloudflare's Terraform provider 5.
# Made by `threshold export cloudflare`: change the policy, and make it anew.
# Needs at least Cloudflare's plan Enterprise.
#
# What differs from the policy, in all rules:
# - each data centre of Cloudflare counts by itself and may be seconds late: these rules are a shield,
#   not exact
# - a window of Cloudflare's own takes the place of a bucket: a whole count may come at its beginning
# - addresses are what Cloudflare takes for `ip.src`; the policy counts IPv6 by /64
# - bodies are sent as application/json, without `resetAt`, and `retryAfter` is the whole block
# - overrides are not in the policy, and not in these rules

terraform {
  required_providers {
    cloudflare = {
      source  = "cloudflare/cloudflare"
      version = "~> 5.0"
    }
  }
}

variable "zone_id" {
  description = "The zone whose requests are limited."
  type        = string
}

resource "cloudflare_ruleset" "threshold_edge" {
  zone_id     = var.zone_id
  name        = "Threshold"
  description = "The limits of the edge, made by threshold export cloudflare"
  kind        = "zone"
  phase       = "http_ratelimit"

  rules = [
    {
      ref         = "edge-requests"
      description = "edge-requests: 1000/min for each address"
      expression  = "true"
      action      = "block"
      enabled     = true
      action_parameters = {
        response = {
          status_code  = 429
          content_type = "application/json"
          content      = "{\"detail\":\"the limit edge-requests allows 1000/min\",\"error\":\"rate_limited\",\"remaining\":0,\"retryAfter\":60,\"status\":429,\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"violated-policies\":[\"edge-requests\"]}"
        }
      }
      ratelimit = {
        characteristics     = ["cf.colo.id", "ip.src"]
        period              = 60
        requests_per_period = 1000
        mitigation_timeout  = 60
      }
    },
    {
      ref         = "edge-auth"
      description = "edge-auth: 50 per 5min for each address"
      expression  = "lower(http.host) eq \"auth.grove.place\" and (lower(http.request.uri.path) eq \"/oauth\" or starts_with(lower(http.request.uri.path), \"/oauth/\"))"
      action      = "block"
      enabled     = true
      action_parameters = {
        response = {
          status_code  = 429
          content_type = "application/json"
          content      = "{\"detail\":\"the limit edge-auth allows 50 per 5min\",\"error\":\"auth_rate_limited\",\"remaining\":0,\"retryAfter\":300,\"status\":429,\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"violated-policies\":[\"edge-auth\"]}"
        }
      }
      ratelimit = {
        characteristics     = ["cf.colo.id", "ip.src"]
        period              = 300
        requests_per_period = 50
        mitigation_timeout  = 300
      }
    },
    {
      ref         = "edge-uploads"
      description = "edge-uploads: 100/hour for each address"
      expression  = "lower(http.request.uri.path) eq \"/api/upload\" or starts_with(lower(http.request.uri.path), \"/api/upload/\") or lower(http.request.uri.path) eq \"/api/images\" or starts_with(lower(http.request.uri.path), \"/api/images/\")"
      action      = "block"
      enabled     = true
      action_parameters = {
        response = {
          status_code  = 429
          content_type = "application/json"
          content      = "{\"detail\":\"the limit edge-uploads allows 100/hour\",\"error\":\"upload_rate_limited\",\"remaining\":0,\"retryAfter\":3600,\"status\":429,\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"violated-policies\":[\"edge-uploads\"]}"
        }
      }
      ratelimit = {
        characteristics     = ["cf.colo.id", "ip.src"]
        period              = 3600
        requests_per_period = 100
        mitigation_timeout  = 3600
      }
    },
    {
      # - Cloudflare has no period of 1d: it counts 379 per 65535 s, which is no more, and refuses after 379
      #   at once
      ref         = "edge-ai"
      description = "edge-ai: 500/day for each address"
      expression  = "lower(http.request.uri.path) eq \"/api/ai\" or starts_with(lower(http.request.uri.path), \"/api/ai/\") or lower(http.request.uri.path) eq \"/api/wisp\" or starts_with(lower(http.request.uri.path), \"/api/wisp/\")"
      action      = "block"
      enabled     = true
      action_parameters = {
        response = {
          status_code  = 429
          content_type = "application/json"
          content      = "{\"detail\":\"the limit edge-ai allows 500/day\",\"error\":\"ai_rate_limited\",\"remaining\":0,\"retryAfter\":3600,\"status\":429,\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"violated-policies\":[\"edge-ai\"]}"
        }
      }
      ratelimit = {
        characteristics     = ["cf.colo.id", "ip.src"]
        period              = 65535
        requests_per_period = 379
        mitigation_timeout  = 3600
      }
    },
  ]
}
